"""JSON parsing with the semantics of Spark SQL's `from_json`, including malformed JSON.

`conversions.py` has a fast path and a slow path. Arrow's JSON reader parses all strings for which it gives the same
result as Spark, in one call. The other strings are parsed one by one in Python. `tokens.py` is the tokenizer of the
slow path, a port of the behaviour of Spark's JSON reader. `conversions.py` converts its tokens to typed values.
"""
