"""The guessing game: the widget, and single-player campaigns."""
