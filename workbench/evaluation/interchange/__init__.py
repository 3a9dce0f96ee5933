"""Results made elsewhere become predictions.

`import_results` says what a file is; `records` gives its records and finds their items; `lm_eval`,
`inspect_log` and `lighteval` read logs of these programs.
"""
