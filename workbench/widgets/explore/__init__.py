"""The linked view: charts above, the passages that are chosen in them below."""
