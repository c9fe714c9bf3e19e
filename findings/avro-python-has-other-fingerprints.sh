#!/bin/sh
# avro 1.12.2, Avro's own library for Python, beside fastavro 1.13.1: a schema has two fingerprints. avro keeps {"type":"long"} in the
# Parsing Canonical Form where a type has attributes, as logical types and Java's string types have; the specification wants the
# simple form "long" (Avro 1.12.0, "Transforming into Parsing Canonical Form", [PRIMITIVES]). So a schema that is looked up by its
# fingerprint, as in single-object encoding, is not found if the other library wrote it.
#
# Seen: of a timestamp and of a string with avro.java.string two fingerprints by two libraries, of the same types without
# attributes one.
#
# Ends with 0 if it is as said here, with another code if that has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check avro==1.12.2 fastavro==1.13.1
"$folder/venv/bin/python" - <<'PYTHON'
import json

import avro.schema
from fastavro.schema import fingerprint, to_parsing_canonical_form

TIME, TEXT = {"type": "long", "logicalType": "timestamp-millis"}, {"type": "string", "avro.java.string": "String"}


def by_both(kind):
    """The canonical forms of a record with a field of this type, and whether its fingerprints are equal."""
    schema = {"type": "record", "name": "Row", "fields": [{"name": "a", "type": kind}]}
    parsed, form = avro.schema.parse(json.dumps(schema)), to_parsing_canonical_form(schema)
    equal = parsed.fingerprint("CRC-64-AVRO").hex() == fingerprint(form, "CRC-64-AVRO")
    return json.loads(str(parsed.canonical_form))["fields"][0]["type"], json.loads(form)["fields"][0]["type"], equal


seen = [by_both(kind) for kind in ("long", "string", TIME, TEXT)]
print(*seen, sep="\n")
assert seen == [
    ("long", "long", True),
    ("string", "string", True),
    ({"type": "long"}, "long", False),
    ({"type": "string"}, "string", False),
]
PYTHON
