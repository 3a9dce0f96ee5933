"""How numbers and tables are shown: `numbers` writes them, `tables` sets HTML, LaTeX and Markdown.

Everything that shows a percentage, a p value, a perplexity or an interval takes it from `numbers`. HTML comes
from jinja2 templates with autoescape: pass data, never marked-up text.
"""
