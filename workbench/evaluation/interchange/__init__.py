"""Results from elsewhere, and results for others."""
