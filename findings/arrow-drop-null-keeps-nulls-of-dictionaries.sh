#!/bin/sh
# pyarrow 26.0.1: a null may also be a value of a dictionary. `is_null` sees it, `null_count` and `drop_null` do not: so
# what `drop_null` gives still has rows that are null.
#
# Seen: null_count 0, is_null [False, True], drop_null ['a', None].
#
# Ends with 0 if it is as said here, with another code if that has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import pyarrow as pa
import pyarrow.compute as pc

column = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None]))
seen = column.null_count, pc.is_null(column).to_pylist(), pc.drop_null(column).to_pylist()
print(seen)
assert seen == (0, [False, True], ["a", None])
PYTHON
