#!/bin/sh
# confluent-kafka 2.16.1: which bytes JSONSerializer writes depends on whether orjson is installed, by its extra `json-fast` or for
# any other package. Without it NaN is written as NaN, which is no JSON (RFC 8259, section 6); with it as null, which the schema
# forbids and the package's own reader refuses. The number is validated before it is written, and passes. Whole numbers of more
# than 64 bits are written without orjson and refused with it.
#
# Seen, of {"a": nan} and {"a": 2**64}, "a" being a number: {"a":NaN} and {"a":18446744073709551616} without orjson; with orjson
# 3.13.0 {"a":null}, of which JSONDeserializer says "None is not of type 'number'", and TypeError. {"a": 0.5} is the same.
#
# Ends with 0 if it is as said here, with another code if that has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/seen.py" <<'PYTHON'
import json
import math

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError

SCHEMA = json.dumps({"title": "Row", "type": "object", "properties": {"a": {"type": "number"}}})
registry = SchemaRegistryClient.new_client({"url": "mock://seen"})
context = SerializationContext("topic", MessageField.VALUE)
write, read = JSONSerializer(SCHEMA, registry), JSONDeserializer(SCHEMA, schema_registry_client=registry)
for value in (0.5, math.nan, 2**64):
    try:
        data = write({"a": value}, context)
        print(data[5:].decode(), end=" ")
        print(read(data, context))
    except (SerializationError, TypeError) as error:
        print(error)
PYTHON
pip() { "$folder/venv/bin/pip" install --quiet --disable-pip-version-check "$@"; }
pip 'confluent-kafka[json,schemaregistry]==2.16.1'
"$folder/venv/bin/python" "$folder/seen.py" >"$folder/without"
pip orjson==3.13.0
"$folder/venv/bin/python" "$folder/seen.py" >"$folder/with"
cat "$folder/without" "$folder/with"
cmp "$folder/without" - <<'EXPECTED'
{"a":0.5} {'a': 0.5}
{"a":NaN} {'a': nan}
{"a":18446744073709551616} {'a': 18446744073709551616}
EXPECTED
cmp "$folder/with" - <<'EXPECTED'
{"a":0.5} {'a': 0.5}
{"a":null} None is not of type 'number'
Integer exceeds 64-bit range
EXPECTED
