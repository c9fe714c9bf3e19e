"""JSON as Spark SQL's `from_json` reads it.

`conversions.py` reads texts of which it is certain that Arrow's reader and Spark read the same, all at once. All others
are read one by one, as Spark does: `tokens.py` takes a text apart and makes texts of what is no text, `conversions.py`
makes values of a type of the tokens.
"""
