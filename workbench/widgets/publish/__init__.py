"""Static pages of views that open without Python."""
