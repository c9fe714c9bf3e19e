#!/bin/sh
# polars 2.1.0: `read_avro` refuses a schema that uses a named type a second time, and calls it out of specification. Avro 1.12.0,
# "Names", allows one definition of a name only, and its use as a type afterwards. So two fields of one enum, or two addresses of one
# record type, cannot be written otherwise. fastavro 1.13.1 and Avro's own library read them.
#
# Seen: two fields of one enum -> polars "avro-error: OutOfSpec", fastavro and avro 1.12.2 the row; of two enums with equal symbols
# -> the row by all three.
#
# Ends with 0 if it is as said here, with another code if that has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check avro==1.12.2 fastavro==1.13.1 polars==2.1.0
"$folder/venv/bin/python" - <<'PYTHON'
import io

import avro.datafile
import avro.io
import fastavro
import polars


def enum(name):
    return {"type": "enum", "name": name, "symbols": ["up", "down"]}


def read_by_all(second):
    fields = [{"name": "a", "type": enum("First")}, {"name": "b", "type": second}]
    sink = io.BytesIO()
    fastavro.writer(sink, {"type": "record", "name": "Row", "fields": fields}, [{"a": "up", "b": "down"}])
    data = sink.getvalue()
    assert list(fastavro.reader(io.BytesIO(data))) == [{"a": "up", "b": "down"}]
    assert list(avro.datafile.DataFileReader(io.BytesIO(data), avro.io.DatumReader())) == [{"a": "up", "b": "down"}]
    try:
        return polars.read_avro(io.BytesIO(data)).rows()
    except polars.exceptions.ComputeError as error:
        return str(error)


once, twice = read_by_all(enum("Second")), read_by_all("First")
print(once, twice)
assert once == [("up", "down")]
assert twice == "avro-error: OutOfSpec"
PYTHON
