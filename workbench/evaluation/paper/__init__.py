"""The papers' tables and published scores, with our results beside."""
