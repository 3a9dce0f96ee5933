"""What reads predictions: measures, tests, rankings, and the papers' tables with ours beside."""
