"""SQL expressions that a task evaluates on Arrow batches in its own process, without Spark's engine.

Only expressions with exactly the results and errors of Spark SQL are evaluated here. Spark evaluates all others.
`reading.py` turns SQL into a tree of nodes, or raises UnprovenError with the reason. `forms` contains the supported
operators and functions, in families. `nodes.py` and the modules that it imports evaluate. The test
`tests/runtime/expressions/test_equal_to_spark.py` compares the results with those of Spark.
"""
