"""Results made elsewhere become predictions, and predictions become files for others.

`import_results` says what a file is; `read` gives its records with their lines, `lm_eval` understands the
logs of lm-evaluation-harness, `matching` finds the items by id or text, `agreement` measures people, and
`export` writes. A new source is a new branch of `import_results` that ends in a checked predictions table.
"""
