"""Publish views as pages that open without Python."""
