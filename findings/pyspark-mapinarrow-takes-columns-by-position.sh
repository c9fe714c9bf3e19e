#!/bin/sh
# pyspark 4.3.0 with pyarrow 26.0.1: what a function of `mapInArrow` gives is taken by position, whatever its columns are called:
# columns in another order change places, one too many is left out, and fields of structs do the same. `mapInPandas` takes
# columns by name. Types are not equal either: int32 for bigint is refused, a decimal of another scale is rounded, and a
# map with a key twice passes `spark.sql.mapKeyDedupPolicy` (its size is 2, SQL sees the first, Python the last value).
#
# Seen: columns b=1, a=2 for "a bigint, b bigint" -> a=1, b=2; in Pandas -> a=2, b=1; 1.2345 as decimal(10,2) -> 1.23;
# a map of a->1, a->2 -> size 2, x['a'] 1, in Python {'a': 2}. Needs Java 17 or later.
#
# Ends with 0 if it is as said here, with another code if that has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pyspark==4.3.0 pyarrow==26.0.1 pandas==2.3.3
cat >"$folder/seen.py" <<'PYTHON'
from decimal import Decimal

import pandas
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
one = spark.range(1)


def arrow(columns, schema):
    def made(batches):
        for _ in batches:
            yield pa.RecordBatch.from_arrays(list(columns.values()), list(columns))

    return one.mapInArrow(made, schema)


def frames(batches):
    for _ in batches:
        yield pandas.DataFrame({"b": [1], "a": [2]})


columns = {"b": pa.array([1]), "a": pa.array([2])}
by_arrow = tuple(arrow(columns, "a bigint, b bigint").first())
by_pandas = tuple(one.mapInPandas(frames, "a bigint, b bigint").first())
one_left = tuple(arrow(columns, "a bigint").first())
rounded = arrow({"x": pa.array([Decimal("1.2345")])}, "x decimal(10,2)").first()[0]
twice = pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int64()))
doubled = tuple(arrow({"x": twice}, "x map<string,bigint>").select("x", F.size("x"), F.col("x")["a"]).first())
print(by_arrow, by_pandas, one_left, rounded, doubled)
assert (by_arrow, by_pandas, one_left) == ((1, 2), (2, 1), (1,))
assert rounded == Decimal("1.23")
assert doubled == ({"a": 2}, 2, 1)
spark.stop()
PYTHON
PYSPARK_PYTHON="$folder/venv/bin/python" "$folder/venv/bin/python" "$folder/seen.py"
