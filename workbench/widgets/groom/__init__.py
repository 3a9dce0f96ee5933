"""The grooming view: a person picks four of the alternates of a sentence."""
