#!/bin/sh
# polars 2.1.0: `read_avro` takes a block without objects for the end of the file. What stands behind it is left out without an
# error. Avro 1.12.0, "Object Container Files", gives each block a count of objects and forbids no 0; a file ends where no
# block follows. fastavro 1.13.1 reads all of them.
#
# Seen, for blocks of 1, 0 and 2 objects: fastavro [5, 6, 7], polars [5]. Without the empty block both have [5, 6, 7].
#
# Ends with 0 if it is as said here, with another code if that has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check fastavro==1.13.1 polars==2.1.0
"$folder/venv/bin/python" - <<'PYTHON'
import io

import fastavro
import polars

SCHEMA = fastavro.parse_schema({"type": "record", "name": "Row", "fields": [{"name": "a", "type": "long"}]})


def long(number):
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, "long", number)
    return sink.getvalue()


def read_both(*blocks):
    sink = io.BytesIO()
    fastavro.writer(sink, SCHEMA, [], sync_marker=b"0123456789abcdef")
    for block in blocks:
        objects = b"".join(map(long, block))
        sink.write(long(len(block)) + long(len(objects)) + objects + b"0123456789abcdef")
    fast = [row["a"] for row in fastavro.reader(io.BytesIO(sink.getvalue()))]
    return fast, polars.read_avro(io.BytesIO(sink.getvalue()))["a"].to_list()


whole, cut = read_both([5], [6, 7]), read_both([5], [], [6, 7])
print(whole, cut)
assert whole == ([5, 6, 7], [5, 6, 7])
assert cut == ([5, 6, 7], [5])
PYTHON
