"""The comparison of models: the widget, its view, its messages, and a self-contained page."""
