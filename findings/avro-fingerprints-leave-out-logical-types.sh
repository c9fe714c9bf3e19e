#!/bin/sh
# Avro 1.12.0 with fastavro 1.13.1: schemas that differ in logical types have one fingerprint. The Parsing Canonical Form, of which
# fingerprints are made ("Transforming into Parsing Canonical Form", [STRIP]), leaves out logicalType, precision, scale and defaults.
# So a cache or a store of schemas by fingerprint, and single-object encoding, whose header is the fingerprint, may give the reader
# the schema with another unit or scale: times a thousand times as late, amounts a tenth, without an error.
#
# Seen: timestamp-millis, timestamp-micros and plain long -> one fingerprint; decimals of scale 2 and 3 and plain bytes -> one; long
# and int -> two. A decimal 1.25 that is read by the other schema of its fingerprint -> 0.125.
#
# Ends with 0 if it is as said here, with another code if that has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check fastavro==1.13.1
"$folder/venv/bin/python" - <<'PYTHON'
import io
from decimal import Decimal

import fastavro
from fastavro.schema import fingerprint, to_parsing_canonical_form


def schema(kind):
    return {"type": "record", "name": "Row", "fields": [{"name": "a", "type": kind}]}


def fingerprints(*kinds):
    return {fingerprint(to_parsing_canonical_form(schema(kind)), "CRC-64-AVRO") for kind in kinds}


millis, micros = ({"type": "long", "logicalType": f"timestamp-{unit}"} for unit in ("millis", "micros"))
cents, mills = ({"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": scale} for scale in (2, 3))
times, amounts, integers = fingerprints(millis, micros, "long"), fingerprints(cents, mills, "bytes"), fingerprints("long", "int")
sink = io.BytesIO()
fastavro.schemaless_writer(sink, fastavro.parse_schema(schema(cents)), {"a": Decimal("1.25")})
read = fastavro.schemaless_reader(io.BytesIO(sink.getvalue()), fastavro.parse_schema(schema(mills)))["a"]
print(times, amounts, integers, read)
assert (len(times), len(amounts), len(integers)) == (1, 1, 2)
assert read == Decimal("0.125")
PYTHON
