"""Widgets for JupyterLab: one Python file, one ``.js`` and one ``.css`` each."""
