#!/bin/sh
# pyarrow 26.0.1: where a decimal is brought to a larger scale, it is multiplied by ten for each digit, and an overflow of
# 128 bits is often not noticed. So a number that has no place in the type becomes another one without an error: by a
# cast of texts, by a cast of decimals and by the JSON reader. The JSON reader does not look at the precision either. Of a
# Python decimal with a long fraction `pa.array` may make 0.
#
# Seen, as decimal(38, 20): 20667401858008302365 -> 250459842751994557.19752355409390731264, a Python decimal of 61 digits
# -> 0; of the JSON reader, as decimal(10, 2): 9000009001 -> 9000009001.00.
#
# Ends with 0 if it is as said here, with another code if that has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import io
from decimal import Context, Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

number, wanted = "20667401858008302365", pa.decimal128(38, 20)
other = Decimal("250459842751994557.19752355409390731264")


def read(text, data_type):
    options = pj.ParseOptions(explicit_schema=pa.schema([("a", data_type)]))
    return pj.read_json(io.BytesIO(b'{"a":%s}\n' % text.encode()), parse_options=options)["a"][0].as_py()


seen = [
    pc.cast(pa.array([number]), wanted)[0].as_py(),
    pc.cast(pa.array([Decimal(number)], pa.decimal128(38, 0)), wanted)[0].as_py(),
]
long = Decimal("9.101009910000010900100000100999019909010901000910900019110010").normalize(Context(prec=100))
zero = pa.array([long], wanted)[0].as_py()
wrapped, beyond = read("9.900990900e+19", wanted), read("9000009001", pa.decimal128(10, 2))
print(*seen, zero, wrapped, beyond, sep="\n")
assert seen == [other, other]
assert zero == 0
assert wrapped == Decimal("328022592927845595.62136384478721867776")
assert beyond == Decimal("9000009001.00")
PYTHON
