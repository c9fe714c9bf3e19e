#!/bin/sh
# rocksdict 0.3.29: keys that are ints come back in the order of numbers, also negative ones; keys that are floats do not. Negative
# ones come behind all others, in falling order, and -0.0 is another key than 0.0. So a range over floats is none.
#
# Seen: ints -2, -1, 0, 1; floats 0.0, 0.5, 1.0, -0.0, -1.5, -2.5.
# Headwater gives RocksDB encoded bytes (raw mode).
#
# Ends with 0 if it is as said here, with another code if that has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check rocksdict==0.3.29
"$folder/venv/bin/python" - <<'PYTHON'
import tempfile

from rocksdict import Rdict

orders = []
for keys in ((-1, 1, 0, -2), (-1.5, 1.0, -0.0, 0.5, -2.5, 0.0)):
    store = Rdict(tempfile.mkdtemp() + "/store")
    for key in keys:
        store[key] = "value"
    orders.append(repr(list(store.keys())))
    store.close()
print(*orders)
assert orders == ["[-2, -1, 0, 1]", "[0.0, 0.5, 1.0, -0.0, -1.5, -2.5]"]
PYTHON
