#!/bin/sh
# pyarrow 26.0.1: the IPC writer cuts the buffers of a slice to what the slice has, but not those of `string_view`: ten rows of
# a column of ten thousand are written with the texts of all. `nbytes` says the same for the view and tells of it.
#
# Seen: 10 of 10,000 texts of 100 bytes as string_view -> over 1,000,000 bytes, as string -> under 2,000.
#
# Ends with 0 if it is as said here, with another code if that has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import io

import pyarrow as pa


def written(column):
    sink = io.BytesIO()
    batch = pa.record_batch([column], ["text"])
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return len(sink.getvalue())


texts = ["x" * 100] * 10_000
view, plain = (written(pa.array(texts, kind).slice(0, 10)) for kind in (pa.string_view(), pa.string()))
print(view, plain)
assert view > 1_000_000 and plain < 2_000
PYTHON
