"""Models that learn nothing: chance, frequency, distance."""
