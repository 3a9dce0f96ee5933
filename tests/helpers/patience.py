"""How long a test waits before it calls something a hang."""

PATIENCE = 1800
"""Seconds. No test expects to reach it: it is more than ten times what a slow and busy machine needs."""
