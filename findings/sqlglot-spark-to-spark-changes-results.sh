#!/bin/sh
# sqlglot 30.30.0 beside Spark 4.3.0: SQL that is read and written in the dialect `spark` may compute something else.
#
#                                               Spark SQL           what sqlglot writes
# typeof(+ '5')                                 double              string: the plus is left out
# 'it''s'                                       it's                its: read as two texts
# time'10:00:00'                                a time              a timestamp of today
# percentile_cont(0.5) of 1 and 2               1.5                 1.0: percentile_approx
# variant_get(parse_json('{"a":1}'), ...)       1                   an error: parse_json is left out
#
# Needs Java 17 or later. Headwater computes or compares by such a tree only what it has proven, and refuses these.
#
# Ends with 0 if it is as said here, with another code if that has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pyspark==4.3.0 sqlglot==30.30.0
cat >"$folder/seen.py" <<'PYTHON'
import sqlglot
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")


def result(sql):
    try:
        return str(spark.sql(sql).collect()[0][0])
    except Exception as error:
        return type(error).__name__


CASES = {
    "select typeof(+ '5')": ("double", lambda other: other == "string"),
    "select 'it''s'": ("it's", lambda other: other == "its"),
    "select typeof(time'10:00:00')": ("time(6)", lambda other: other == "timestamp"),
    "select percentile_cont(0.5) within group (order by x) from values (1), (2) as t(x)": ("1.5", lambda other: other == "1"),
    "select variant_get(parse_json('{\"a\":1}'), '$.a', 'int')": ("1", lambda other: other.endswith("Exception")),
}
for sql, (right, changed) in CASES.items():
    written = sqlglot.transpile(sql, read="spark", write="spark")[0]
    seen, other = result(sql), result(written)
    print(sql, "->", written, ":", seen, "->", other)
    assert seen == right, seen
    assert changed(other), other
spark.stop()
PYTHON
PYSPARK_PYTHON="$folder/venv/bin/python" "$folder/venv/bin/python" "$folder/seen.py"
