#!/bin/sh
# fastavro 1.13.1: the writer checks neither the range of `int` and `float` nor that a number is whole, unless it is asked to
# validate. An Avro `int` has 32 bits; fastavro writes and reads a larger one, which a reader in Java refuses. 1.9 becomes 1
# in a `long`, and 1e300 infinity in a `float`.
#
# Seen: int 2**31 -> 2147483648, long 1.9 -> 1, float 1e300 -> inf.
#
# Ends with 0 if it is as said here, with another code if that has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check fastavro==1.13.1
"$folder/venv/bin/python" - <<'PYTHON'
import io

import fastavro


def there_and_back(schema, value):
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, schema, value)
    sink.seek(0)
    return fastavro.schemaless_reader(sink, schema)


seen = there_and_back("int", 2**31), there_and_back("long", 1.9), there_and_back("float", 1e300)
print(seen)
assert seen == (2**31, 1, float("inf"))
PYTHON
