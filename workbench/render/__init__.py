"""Display of columns, numbers and tables.

`labels` says what every column is called, `numbers` writes numbers, `tables` sets HTML (whose rows `sort.js`
sorts), LaTeX, Markdown and text, `results` has frames that show their most important columns.
Everything that shows a percentage, a p value, a perplexity or an interval takes it from `numbers`. HTML comes
from jinja2 templates with autoescape: pass data, never marked-up text.
"""
