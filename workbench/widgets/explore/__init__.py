"""The linked view: charts above, the selected passages below."""
