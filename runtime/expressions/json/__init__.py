"""JSON as Spark SQL's `from_json` reads it.

`plain.py` reads texts of which it is certain that Arrow's reader and Spark read the same, all at once; `patterns.py`
says which those are. All others are read one by one, as Spark does: `tokens.py` takes a text apart, `conversions.py`
makes values of a type of the tokens, and `written.py` makes texts of what is no text. `texts.py` puts both together.
"""
