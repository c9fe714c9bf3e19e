"""How fast the formats of Kafka are read and written: `python -m benchmarks.formats`, on one core, without a broker."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.plugins.manager import PluginManager
from headwater.runtime.records.types import parse_columns
from headwater.runtime.serdes.serde import Deserializer, PayloadSpec, Role, Serializer
from headwater.tests.runtime.serdes.served_registry import served_registry

ROWS, PIECE, TIMES = 100_000, 5_000, 5
COLUMNS = "customer string, id bigint, amount double, quantity int, note string"
FORMATS: Mapping[str, Mapping[str, Any]] = {
    "avro": {"register": True},
    "json": {},
    "json_schema": {"register": True},
    "protobuf": {"register": True},
}


def _rows() -> pa.RecordBatch:
    rows = [
        {"customer": f"c{row % 1000}", "id": row, "amount": row * 0.5, "quantity": row % 7, "note": "x" * 40}
        for row in range(ROWS)
    ]
    return pa.RecordBatch.from_pylist(rows, pa.schema(list(parse_columns(COLUMNS).items())))


def _rate(work: Callable[[int], object]) -> float:
    """Thousands of rows a second of CPU: the best of some rounds, as other processes only make it slower."""
    taken = []
    for _ in range(TIMES):
        begun = time.process_time()
        for start in range(0, ROWS, PIECE):
            work(start)
        taken.append(time.process_time() - begun)
    return ROWS / min(taken) / 1000


def measure() -> dict[str, tuple[int, float, float]]:
    """Bytes of a payload, thousands of rows read, thousands written, by format."""
    rows = _rows()
    serdes = PluginManager(installed=False).serdes
    found = {}
    for name, options in FORMATS.items():
        spec = PayloadSpec(f"orders-{name}", Role.VALUE, parse_columns(COLUMNS), served_registry())
        serde = serdes.create(name, options)
        serializer, deserializer = serde.serializer(spec), serde.deserializer(spec)
        payloads = serializer.write(rows, np.zeros(ROWS, np.bool_)).payloads
        assert deserializer.read(payloads).columns == rows
        found[name] = (
            len(payloads[-1].as_py()),
            _rate(partial(_read, deserializer, payloads)),
            _rate(partial(_write, serializer, rows)),
        )
    return found | {f"debezium, {name}": _changes(fields) for name, fields in (("plain", 0), ("with schemas", 40))}


def _read(deserializer: Deserializer, payloads: pa.BinaryArray, start: int) -> object:
    return deserializer.read(payloads[start : start + PIECE])


def _write(serializer: Serializer, rows: pa.RecordBatch, start: int) -> object:
    return serializer.write(rows[start : start + PIECE], np.zeros(PIECE, np.bool_))


def _changes(fields: int) -> tuple[int, float, float]:
    """Of changes by Debezium in JSON, with a schema of so many fields in each payload."""
    spec = PayloadSpec("changes", Role.VALUE, parse_columns("id bigint, color string, at bigint, n string"))
    deserializer = PluginManager(installed=False).serdes.create("json", {"envelope": "debezium"}).deserializer(spec)
    source = {"connector": "postgresql", "db": "shop", "table": "parcels", "lsn": 5, "snapshot": "false"}
    parts = [{"type": "string", "optional": True, "field": f"field{number}"} for number in range(fields)]
    rows = [{"type": "struct", "fields": parts, "optional": True, "field": name} for name in ("before", "after")]
    written = []
    for number in range(ROWS):
        row = {"id": number, "color": "red", "at": number, "n": "12.34"}
        change = {"before": row, "after": row, "source": source, "op": "u", "ts_ms": number}
        payload = {"schema": {"type": "struct", "fields": rows}, "payload": change} if fields else change
        written.append(json.dumps(payload, separators=(",", ":")).encode())
    payloads = pa.array(written, pa.binary())
    assert not deserializer.read(payloads).errors
    return len(written[-1]), _rate(partial(_read, deserializer, payloads)), float("nan")


if __name__ == "__main__":
    for name, (size, read, write) in measure().items():
        print(f"{name:24} {size:6,} bytes  read {read:5.0f} k/s  written {write:5.0f} k/s")
