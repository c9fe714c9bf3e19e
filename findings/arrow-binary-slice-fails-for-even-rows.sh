#!/bin/sh
# pyarrow 26.0.1: `binary_slice` without `stop` fails for arrays with an even number of rows, if `start` is not negative. The documentation
# says that an omitted `stop` goes to the end, and `utf8_slice_codeunits` with the same arguments does so. With an odd number of rows
# the result is right, so a test with one value does not show it. A `stop` behind every end, or a negative `start`, helps.
#
# Seen: 2 rows, start 0: "Negative buffer resize: -2"; 4 rows, start 0: -4; 2 rows, start 5: -12. 1, 3 and 5 rows: right.
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


def sliced(rows, *bounds):
    try:
        return pc.binary_slice(pa.array([b"abcdefgh"] * rows), *bounds).to_pylist()
    except pa.ArrowInvalid as error:
        return str(error)


for rows, start, expected in (
    (1, 0, [b"abcdefgh"]),
    (2, 0, "Negative buffer resize: -2"),
    (3, 5, [b"fgh"] * 3),
    (4, 0, "Negative buffer resize: -4"),
    (2, 5, "Negative buffer resize: -12"),
    (5, 5, [b"fgh"] * 5),
):
    seen = sliced(rows, start)
    print(f"{rows} rows from {start}: {seen}")
    assert seen == expected
    assert sliced(rows, start, 8) == sliced(rows, start - 8) == [b"abcdefgh"[start:]] * rows
    texts = pa.array(["abcdefgh"] * rows)
    assert pc.utf8_slice_codeunits(texts, start).to_pylist() == ["abcdefgh"[start:]] * rows
PYTHON
