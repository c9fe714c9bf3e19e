#!/bin/sh
# protobuf 6.33.6 for Python: a `string` field of proto2 with bytes that are not UTF-8 is read without an error, and its value is `bytes`
# in place of `str`. Messages of proto2 may have such bytes, as its parsers do not check them. JSON then has the text of a Python
# literal. The same field of proto3 is a DecodeError, and the implementation in pure Python raises UnicodeDecodeError for both.
#
# Seen, with the default implementation (upb): proto2 bytes b'a\xff', in JSON "b'a\\xff'"; proto3 DecodeError. In pure Python: twice
# UnicodeDecodeError.
#
# Ends with 0 if it is as said here, with another code if that has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check protobuf==6.33.6
cat > "$folder/read.py" <<'PYTHON'
import sys

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.internal import api_implementation


def read(syntax):
    file = descriptor_pb2.FileDescriptorProto(name=f"{syntax}.proto", syntax=syntax)
    field = file.message_type.add(name="Message").field.add(name="text", number=1)
    field.type, field.label = field.TYPE_STRING, field.LABEL_OPTIONAL
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName("Message"))
    try:
        found = message.FromString(b"\x0a\x02a\xff")
    except Exception as error:
        return type(error).__name__
    return found.text, json_format.MessageToDict(found)["text"]


seen = [read("proto2"), read("proto3")]
print(api_implementation.Type(), seen)
expected = {
    "upb": [(b"a\xff", "b'a\\xff'"), "DecodeError"],
    "python": ["UnicodeDecodeError", "UnicodeDecodeError"],
}
assert api_implementation.Type() == sys.argv[1]
assert seen == expected[sys.argv[1]]
PYTHON
"$folder/venv/bin/python" "$folder/read.py" upb
PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python "$folder/venv/bin/python" "$folder/read.py" python
