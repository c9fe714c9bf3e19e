#!/bin/sh
# fastavro 1.13.1: rows that lack an array or a map share one and the same default, that of the parsed schema. Who adds to the list of
# one row adds to those of all rows that were read so, and of all that will be read by this schema.
#
# Seen: of two rows without tags, adding 1 to the tags of the first -> both have [1], and so has a row that is read later. Rows
# that were written with empty tags have lists of their own.
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

OLD = {"type": "record", "name": "Row", "fields": [{"name": "a", "type": "long"}]}
TAGS = {"name": "tags", "type": {"type": "array", "items": "long"}, "default": []}
old, new = fastavro.parse_schema(OLD), fastavro.parse_schema({**OLD, "fields": [*OLD["fields"], TAGS]})


def rows(writer_schema, *written):
    sink = io.BytesIO()
    fastavro.writer(sink, writer_schema, written)
    sink.seek(0)
    return list(fastavro.reader(sink, reader_schema=new))


own, shared = rows(new, {"a": 1, "tags": []}, {"a": 2, "tags": []}), rows(old, {"a": 1}, {"a": 2})
for read in (own, shared):
    read[0]["tags"].append(1)
later = rows(old, {"a": 3})
print(own, shared, later, sep="\n")
assert [row["tags"] for row in own] == [[1], []]
assert [row["tags"] for row in shared] == [[1], [1]]
assert later == [{"a": 3, "tags": [1]}]
PYTHON
