"""Writes and reads columns in a schema of Avro, without a registry."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from headwater.runtime.serdes.avro_cursor import PADDING, Cursor
from headwater.runtime.serdes.avro_fit import columns_writer
from headwater.runtime.serdes.avro_resolve import Resolver
from headwater.runtime.serdes.avro_schema import parse_schema
from headwater.runtime.serdes.serde import by_rows


def record(**fields: Any) -> dict[str, Any]:
    """A schema. A field is its type, or a mapping with `type` and other keys."""
    listed = [{"name": name, **(kind if _is_field(kind) else {"type": kind})} for name, kind in fields.items()]
    return {"type": "record", "name": "shop.Order", "fields": listed}


def _is_field(kind: Any) -> bool:
    return isinstance(kind, dict) and bool(kind.keys() & {"default", "aliases"}) and kind["type"] not in ("enum",)


def by_fastavro(schema: Any, *rows: Any) -> list[bytes]:
    """The payloads of values, without the number of a schema."""
    parsed, payloads = fastavro.parse_schema(schema), []
    for row in rows:
        written = io.BytesIO()
        fastavro.schemaless_writer(written, parsed, row)
        payloads.append(written.getvalue())
    return payloads


def read(
    schema: Any, payloads: Sequence[bytes], columns: Mapping[str, pa.DataType], latest: Any = None
) -> tuple[list[dict[str, Any]], dict[int, str]]:
    """The rows of payloads as columns, and errors by row. Raises AvroMismatchError."""
    now = None if latest is None else parse_schema(json.dumps(latest))
    reader = Resolver().columns(parse_schema(json.dumps(schema)), columns, now)
    lengths = np.array([len(payload) for payload in payloads], np.int64)
    data = np.frombuffer(b"".join(payloads) + PADDING, np.uint8)
    cursor, rows = Cursor(data, np.cumsum(lengths) - lengths, lengths), np.arange(len(payloads))
    arrays = reader.read_columns(cursor, rows)
    cursor.end(rows)
    batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(list(columns.items())))
    batch.validate(full=True)
    return batch.to_pylist(), cursor.errors


def write(schema: Any, batch: pa.RecordBatch) -> tuple[list[bytes | None], dict[int, str]]:
    """The payloads of rows, and errors by row. Raises AvroMismatchError."""
    columns = {field.name: field.type for field in batch.schema}
    writer = columns_writer(parse_schema(json.dumps(schema)), columns)
    structs = pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))
    payloads, errors = by_rows(structs, writer.write, pa.binary())
    return payloads.to_pylist(), errors
