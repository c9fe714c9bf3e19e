#!/bin/sh
# pyarrow 26.0.1: the cast of a text to decimal128 does not notice a number of more than 38 digits. It gives another
# number, of either sign, without an error, where the cast of a number that is too large is one. With many digits behind the
# point 7.000 even becomes 0.
#
# Seen: 39 sevens -> 97213043935900850851028562914241354865, 40 sevens -> a negative number, '7.' and 39 zeros -> 0.
# Headwater checks the form and counts the digits of decimals before Arrow reads them.
#
# Ends with 0 if it is as said here, with another code if that has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import decimal

import pyarrow as pa
import pyarrow.compute as pc

whole = pa.decimal128(38, 0)
seen = [pc.cast(pa.array([text]), whole)[0].as_py() for text in ("7" * 38, "7" * 39, "7" * 40, "7." + "0" * 39)]
print(*seen, sep="\n")
assert seen[0] == decimal.Decimal("7" * 38)
assert seen[1] == decimal.Decimal("97213043935900850851028562914241354865")
assert seen[2] < 0
assert seen[3] == 0
PYTHON
