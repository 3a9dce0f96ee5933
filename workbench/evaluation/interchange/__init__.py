"""Results made elsewhere become predictions, and predictions become files for others.

`import_results` says what a file is; `records` gives its records and finds their items, `lm_eval`,
`inspect_log` and `lighteval` read logs of these programs, `sample_logs` lines several up, `agreement`
measures people, and `export` writes.
"""
