"""Questions to models: the widget, what is asked, and the threads in which models answer."""
