"""What can be said about items and their targets."""
