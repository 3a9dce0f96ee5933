"""Questions to models: the widget, the questions, and the threads that answer them."""
