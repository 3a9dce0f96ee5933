"""What the widgets share: base class, filters, passages; scripts, styles and templates."""
