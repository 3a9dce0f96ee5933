"""The attention view: what models looked at, drawn on the passage."""
