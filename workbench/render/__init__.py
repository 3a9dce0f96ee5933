"""Tables and numbers as HTML, LaTeX and Markdown."""
