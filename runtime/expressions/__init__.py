"""SQL: one reader of expressions for compiler and tasks, and the expressions that a task evaluates itself.

`typed.py` reads what is known of an expression without Spark and without Arrow, by the table of operators and functions
in `typed_forms.py` and `typed_functions.py`.

A task evaluates only expressions with exactly the results and errors of Spark SQL, on Arrow batches, without Spark's
engine. Spark evaluates all others. `reading.py` turns SQL into a tree of nodes, or raises UnprovenError with the
reason. `forms` contains the supported operators and functions, in families. `nodes.py` and the modules that it imports
evaluate. The test `tests/runtime/expressions/test_equal_to_spark.py` compares the results with those of Spark.
"""
