"""The types of expressions that are known without Spark, so that checking a project need not start a JVM.

`reading.py` has the walk through an expression, `operators.py`, `calls.py` and `aggregates.py` the forms of SQL that
are known, `numbers.py` Spark's rules for numbers. What is known is proven: Spark's analyzer gives the same type, and
refuses nothing, which `tests/compiler/language/test_proven_types.py` holds. Whatever else is left to Spark, errors too.
"""
