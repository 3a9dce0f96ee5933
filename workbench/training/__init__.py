"""Training of a network, on accelerate: it knows networks and batches, no model and no chart."""
