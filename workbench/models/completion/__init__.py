"""The systems of the sentence completion challenge."""
