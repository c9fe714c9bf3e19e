#!/bin/sh
# pyarrow 26.0.1 (PyPI): a safe cast, whose CastOptions have allow_decimal_truncate=False and allow_float_truncate=False,
# rounds a double to the scale of a decimal without an error. The same digits as a decimal or as text are refused.
# So `column.cast(decimal128(5, 2))` of computed amounts loses digits where it seems to check for them.
#
# Seen:
#   double 1.256 -> 1.26
#   decimal 1.256 -> ArrowInvalid: Rescaling Decimal value would cause data loss
#   text 1.256 -> ArrowInvalid: Rescaling Decimal value would cause data loss
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

kind = pa.decimal128(5, 2)
options = pc.CastOptions.safe(kind)
assert not options.allow_decimal_truncate
assert not options.allow_float_truncate
found = pa.array([1.256]).cast(options=options)[0].as_py()
print("double 1.256 ->", found)
assert found == Decimal("1.26")
for name, column in (("decimal", pa.array([Decimal("1.256")])), ("text", pa.array(["1.256"]))):
    try:
        column.cast(options=options)
    except pa.ArrowInvalid as error:
        print(f"{name} 1.256 -> ArrowInvalid: {error}")
        assert "would cause data loss" in str(error)
    else:
        raise AssertionError(f"{name}: no error")
PYTHON
