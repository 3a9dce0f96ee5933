"""Predictions: the table, its measures, and the runs that hold one on disk.

`schema` has the columns of the table and their checks, `measures` one class per measure, `store` keeps runs,
finds them again and says what they depend on. Stored runs stay readable: a new column is optional.
"""
