#!/bin/sh
# pyarrow 26.0.1: the calendar functions of timestamps know years of 16 bits. A timestamp of the year 41969, which Spark SQL
# has a year for, gets a negative year without an error; one far before gets a positive one.
#
# Seen: the year of 40000 mean years after 1970 -> -23566, of 50000 mean years before 1970 -> 17506.
# Headwater counts dates with numpy, and takes no record with a time after the year 9999.
#
# Ends with 0 if it is as said here, with another code if that has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import pyarrow as pa
import pyarrow.compute as pc

mean_year = 31_556_952_000_000  # microseconds
years = [pc.year(pa.array([count * mean_year], pa.timestamp("us")))[0].as_py() for count in (40_000, -50_000)]
print(years)
assert years == [-23566, 17506]
PYTHON
