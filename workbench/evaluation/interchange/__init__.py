"""Results made elsewhere become predictions, and predictions become files for others.

`import_results` says what a file is; `records` gives its records and finds their items, `lm_eval` reads logs
of lm-evaluation-harness, `agreement` measures people, and `export` writes.
"""
