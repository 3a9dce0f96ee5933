"""Shared by the widgets: base class, filters, passages; scripts, styles and templates."""
