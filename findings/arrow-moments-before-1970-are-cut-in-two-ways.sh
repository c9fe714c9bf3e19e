#!/bin/sh
# pyarrow 26.0.1: a timestamp of a finer unit that is cast to a coarser one is cut towards 1970, and one that is cast to a
# date towards the past. A microsecond before 1970 is in second 0, of 1970-01-01, and on the day 1969-12-31. So windows
# that are counted with one of them and named with the other do not fit for times before 1970.
#
# Seen: -1 us -> second 0, -1500 us -> millisecond -1, -1 us -> date 1969-12-31, floor_temporal to seconds -> -1 s.
#
# Ends with 0 if it is as said here, with another code if that has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import datetime

import pyarrow as pa
import pyarrow.compute as pc

before = pa.array([-1], pa.timestamp("us"))
second = pc.cast(before, pa.timestamp("s"), safe=False).cast(pa.int64())[0].as_py()
floored = pc.floor_temporal(before, 1, "second").cast(pa.int64())[0].as_py()
day = pc.cast(before, pa.date32())[0].as_py()
milli = pc.cast(pa.array([-1500], pa.timestamp("us")), pa.timestamp("ms"), safe=False).cast(pa.int64())[0].as_py()
print(second, milli, day, floored)
assert (second, milli, day, floored) == (0, -1, datetime.date(1969, 12, 31), -1_000_000)
PYTHON
