"""The comparison of models."""
