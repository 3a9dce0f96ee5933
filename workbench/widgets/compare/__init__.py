"""The comparison of models: the widget, its view, its messages, and the page to mail."""
