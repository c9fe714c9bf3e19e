#!/bin/sh
# pyarrow 26.0.1: the sum of a column of decimal128(38, 0) that has no place in 38 digits is another number, without an error,
# and the number has more digits than its own type. `add` of two such columns is refused (the result would have 39
# digits), so one expects the sum to be refused as well.
#
# Seen: 9e37 + 9e37 -> -160282366920938463463374607431768211456; `add` -> ArrowInvalid.
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

column = pa.array([9 * 10**37] * 2, pa.decimal128(38, 0))
total = pc.sum(column)
print(total.type, total.as_py())
assert int(total.as_py()) == -160282366920938463463374607431768211456
try:
    pc.add(column, column)
except pa.ArrowInvalid as error:
    print(error)
else:
    raise SystemExit("add is not refused any more")
PYTHON
