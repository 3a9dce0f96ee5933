"""Neural language models that are trained here."""
