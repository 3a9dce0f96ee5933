"""The attention view: attention weights drawn on the passage."""
