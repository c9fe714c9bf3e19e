#!/bin/sh
# fastavro 1.13.1: a value goes into the first branch of a union that can hold its Python type, not into the best one. So a
# whole number before which `double` stands loses its last digit, and a datetime before which `date` stands its time.
#
# Seen: 2**53 + 1 in ["null", "double", "long"] -> 9007199254740992.0; 10:30 of a day in ["null", date, timestamp-millis] -> the date.
#
# Ends with 0 if it is as said here, with another code if that has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check fastavro==1.13.1
"$folder/venv/bin/python" - <<'PYTHON'
import datetime
import io

import fastavro


def there_and_back(schema, value):
    schema, sink = fastavro.parse_schema(schema), io.BytesIO()
    fastavro.schemaless_writer(sink, schema, value)
    sink.seek(0)
    return fastavro.schemaless_reader(sink, schema)


date = {"type": "int", "logicalType": "date"}
moment = {"type": "long", "logicalType": "timestamp-millis"}
number = there_and_back(["null", "double", "long"], 2**53 + 1)
day = there_and_back(["null", date, moment], datetime.datetime(2020, 1, 1, 10, 30))
print(number, day)
assert (type(number), number) == (float, 2.0**53)
assert type(day) is datetime.date
PYTHON
