"""The guessing game: the widget, and the game of one person."""
