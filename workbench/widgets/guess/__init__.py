"""The guessing game: the widget, and the campaigns that one person plays alone."""
