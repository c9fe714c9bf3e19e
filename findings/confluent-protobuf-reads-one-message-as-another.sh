#!/bin/sh
# confluent-kafka 2.16.1: ProtobufDeserializer reads the message indexes of a record, which say what message of the schema it is, and does
# not look at them. A record of any other message is read as the one it was made for, without an error: fields of the
# same number are taken for each other, and other integer encodings give other numbers.
#
# Seen: an Order of customer "ann" and 500 cents (int64) -> a Visit of page "ann" and day 250 (sint64), though the bytes before it say
# message 0 and Visit is message 1. The descriptor that a deserializer was made for has the full name, so it could tell.
#
# Ends with 0 if it is as said here, with another code if that has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check 'confluent-kafka[protobuf,schemaregistry]==2.16.1' protobuf==7.36.2
"$folder/venv/bin/python" - <<'PYTHON'
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

Field = descriptor_pb2.FieldDescriptorProto
file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
for message, text, number, kind in (("Order", "customer", "cents", Field.TYPE_INT64), ("Visit", "page", "day", Field.TYPE_SINT64)):
    fields = file.message_type.add(name=message).field
    fields.add(name=text, number=1, type=Field.TYPE_STRING, label=Field.LABEL_OPTIONAL)
    fields.add(name=number, number=2, type=kind, label=Field.LABEL_OPTIONAL)
pool = descriptor_pool.DescriptorPool()
pool.Add(file)
Order, Visit = (message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}")) for name in ("Order", "Visit"))

registry = SchemaRegistryClient.new_client({"url": "mock://seen"})
context, settings = SerializationContext("topic", MessageField.VALUE), {"use.deprecated.format": False}


def written(message):
    return ProtobufSerializer(type(message), registry, settings)(message, context)


order, visit = written(Order(customer="ann", cents=500)), written(Visit(page="/", day=-3))
print(order[5:], visit[5:])
assert order[5:6] == b"\x00"  # the first message
assert visit[5:7] == b"\x02\x02"  # one index, 1, as zigzag varints
read = ProtobufDeserializer(Visit, settings, registry)
print(read(order, context), read(visit, context))
assert read(visit, context) == Visit(page="/", day=-3)
assert read(order, context) == Visit(page="ann", day=250)
PYTHON
