"""Questions to models."""
