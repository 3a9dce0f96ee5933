"""Widgets for JupyterLab, each a folder: Python, scripts, styles and templates (``.html``, jinja2).

They are ``browser``, ``explore``, ``compare``, ``ask``, ``attention`` and ``guess``; ``shared`` holds what
all of them use. Data stay in the kernel, which sends the rows in view; text from data is escaped. Users call
``wb.browse``, ``wb.explore``, ``wb.compare``, ``wb.ask``, ``wb.attention`` and ``wb.guess``; traits without
an underscore are public.
"""
