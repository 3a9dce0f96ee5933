"""The linked view: charts above the passages."""
