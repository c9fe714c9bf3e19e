#!/bin/sh
# polars 2.1.0: `write_avro` calls the record "" unless it gets a name. Avro 1.12.0, "Complex Types", requires a name of a record, and
# "Names" wants [A-Za-z_][A-Za-z0-9_]*. So Avro's own library does not read a file that is written with the defaults. polars and
# fastavro do, so tests with them do not notice.
#
# Seen: with the defaults avro 1.12.2 raises "Named Schemas must have a non-empty name.", fastavro 1.13.1 and polars read the row;
# with name="Row" all three read it.
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
import avro.errors
import avro.io
import fastavro
import polars


def by_avro(data):
    try:
        return list(avro.datafile.DataFileReader(io.BytesIO(data), avro.io.DatumReader()))
    except avro.errors.SchemaParseException as error:
        return str(error)


for options, expected in (({}, "Named Schemas must have a non-empty name."), ({"name": "Row"}, [{"a": 1}])):
    sink = io.BytesIO()
    polars.DataFrame({"a": [1]}).write_avro(sink, **options)
    seen = by_avro(sink.getvalue())
    print(options, seen)
    assert seen == expected
    assert list(fastavro.reader(io.BytesIO(sink.getvalue()))) == [{"a": 1}]
    assert polars.read_avro(io.BytesIO(sink.getvalue())).rows() == [(1,)]
PYTHON
