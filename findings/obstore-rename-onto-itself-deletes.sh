#!/bin/sh
# obstore 0.12.1: `rename` of an object to its own name deletes it in a store that renames by copying and deleting, here the
# one in memory. In a folder the file stays, as it is renamed by the file system. Where names are computed, compare them first.
#
# Seen: MemoryStore -> no object left; LocalStore -> the object is there.
#
# Ends with 0 if it is as said here, with another code if that has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check obstore==0.12.1
"$folder/venv/bin/python" - <<'PYTHON'
import tempfile

import obstore
from obstore.store import LocalStore, MemoryStore

left = []
for store in (MemoryStore(), LocalStore(tempfile.mkdtemp())):
    obstore.put(store, "object", b"content")
    obstore.rename(store, "object", "object")
    left.append([found["path"] for page in obstore.list(store) for found in page])
print(left)
assert left == [[], ["object"]]
PYTHON
