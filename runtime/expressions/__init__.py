"""SQL expressions evaluated on Arrow, inside the task: those of which it is proven that Spark SQL gives the same.

`reading.py` makes a tree of nodes of the SQL, or says what keeps it with Spark; `forms` has the forms of SQL that it
can read, by families. `nodes.py` and the modules below it evaluate. What is proven is held to Spark by
`tests/runtime/expressions/test_equal_to_spark.py`.
"""
