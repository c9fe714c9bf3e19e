"""Windowed keys in Kafka: as fields of the key, as the bytes behind it that Kafka Streams writes, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..environment import parse_duration
from ..ir.topology import PluginRef
from ..records.arrays import Bools, Int64s, to_numpy
from ..records.keys import binary_array, binary_parts
from ..records.schema import LAST_TIMESTAMP, WINDOW_COLUMNS, invalid_timestamps
from ..records.types import TIMESTAMP
from .serde import (
    Decoded,
    Deserializer,
    Direction,
    Encoded,
    PayloadSpec,
    Problem,
    Serde,
    Serializer,
    decoded,
    encoded,
    null_keys,
)

_WORD = 8


class Windows(StrEnum):
    """How the window of a key is written.

    - FIELDS: the format writes `window_start` and `window_end` as it writes other columns.
    - JAVA_TIME: the start behind the key, in 8 bytes, as Kafka Streams' TimeWindowedSerializer does.
    - JAVA_SESSION: end and start behind the key, as its SessionWindowedSerializer does.
    - DROP: the key alone. Records of all windows of a key have the same key then.
    """

    FIELDS = "fields"
    JAVA_TIME = "java_time"
    JAVA_SESSION = "java_session"
    DROP = "drop"


# The bytes behind a key: numbers of ms, big endian. A key "UA" with the window from 5 to 300,005:
#
#     JAVA_TIME      55 41  00 00 00 00 00 00 00 05                            start
#     JAVA_SESSION   55 41  00 00 00 00 00 04 93 e5  00 00 00 00 00 00 00 05   end and start
#
# Kafka Streams sends a windowed key to the partition of the key without these bytes.


@dataclass(frozen=True)
class WindowedSerde:
    """See `Serde`. The serde of windowed keys.

    `serde`: the format of the key without its window. `size_ms`: the length of windows; without it JAVA_TIME cannot
    be read, as only starts are written.
    """

    serde: Serde
    windows: Windows
    size_ms: int | None = None

    def check(self, spec: PayloadSpec, direction: Direction) -> Sequence[Problem]:
        if self.windows is Windows.FIELDS:
            return self.serde.check(spec, direction)
        problems = list(self.serde.check(_without_window(spec), direction))
        if direction is Direction.READ and self.windows is Windows.DROP:
            problems.append(Problem("`windows: drop` has no windows to read; declare the topic without `windowed`"))
        if direction is Direction.READ and self.windows is Windows.JAVA_TIME and self.size_ms is None:
            problems.append(
                Problem("`windows: java_time` holds starts only; to read it give a `window_size`, such as 5m")
            )
        return problems

    def deserializer(self, spec: PayloadSpec) -> Deserializer:
        if self.windows is Windows.FIELDS:
            return self.serde.deserializer(spec)
        return _Deserializer(self.serde.deserializer(_without_window(spec)), spec, self.windows, self.size_ms)

    def serializer(self, spec: PayloadSpec) -> Serializer:
        if self.windows is Windows.FIELDS:
            return self.serde.serializer(spec)
        return _Serializer(self.serde.serializer(_without_window(spec)), self.windows, self.size_ms)


def _without_window(spec: PayloadSpec) -> PayloadSpec:
    return replace(spec, columns={name: kind for name, kind in spec.columns.items() if name not in WINDOW_COLUMNS})


@dataclass(frozen=True)
class _Deserializer:
    inner: Deserializer
    spec: PayloadSpec
    windows: Windows
    size_ms: int | None

    def read(self, payloads: pa.BinaryArray) -> Decoded:
        words = 1 if self.windows is Windows.JAVA_TIME else 2
        data, starts, lengths = binary_parts(payloads)
        valid = to_numpy(payloads.is_valid()) & (lengths >= words * _WORD)
        errors = {
            int(row): f"{lengths[row]} bytes are too few for a key with a window, which has {words * _WORD} for it"
            for row in np.flatnonzero(to_numpy(payloads.is_valid()) & ~valid)
        }
        tails = (starts + lengths)[valid][:, None] + np.arange(-words * _WORD, 0)
        times = np.zeros((len(payloads), words), np.int64)
        times[valid] = data[tails].view(">i8")
        begin, end = times[:, -1], times[:, 0]
        if self.windows is Windows.JAVA_TIME:
            end = np.minimum(begin, LAST_TIMESTAMP) + (self.size_ms or 0)
        bad = valid & (invalid_timestamps(begin) | invalid_timestamps(end) | (end < begin))
        errors |= {int(row): f"there is no window from {begin[row]} to {end[row]} ms" for row in np.flatnonzero(bad)}
        keys = pc.if_else(pa.array(valid), pc.binary_slice(payloads, 0, -words * _WORD), pa.scalar(None, pa.binary()))
        key = self.inner.read(keys)
        bounds = [_timestamps(time, ~valid | bad) for time in (begin, end)]
        return decoded(self.spec, [*key.columns.columns, *bounds], len(payloads), dict(key.errors) | errors)


def _timestamps(times: Int64s, missing: Bools) -> pa.Array:
    return pa.array(np.where(missing, 0, times) * 1000, mask=missing).cast(TIMESTAMP)


@dataclass(frozen=True)
class _Serializer:
    inner: Serializer
    windows: Windows
    size_ms: int | None

    def write(self, columns: pa.RecordBatch, absent: Bools) -> Encoded:
        names = [name for name in columns.schema.names if name not in WINDOW_COLUMNS]
        key_columns = columns.select(names)
        without_key = null_keys(key_columns)
        key = self.inner.write(key_columns, absent | without_key)
        if self.windows is Windows.DROP:
            return key
        errors = dict(key.errors)
        begin, end = (columns.column(name).cast(pa.int64()).fill_null(0) for name in WINDOW_COLUMNS)
        begin, end = to_numpy(begin) // 1000, to_numpy(end) // 1000
        if self.windows is Windows.JAVA_TIME and self.size_ms is not None:
            other = np.flatnonzero(end - begin != self.size_ms)
            errors |= {int(row): f"the window is {end[row] - begin[row]} ms long, not {self.size_ms}" for row in other}
        unbounded = to_numpy(pc.or_(*(columns.column(name).is_null() for name in WINDOW_COLUMNS)))
        errors |= dict.fromkeys(np.flatnonzero(unbounded).tolist(), "the window has no start or no end")
        errors |= dict.fromkeys(np.flatnonzero(without_key).tolist(), "the key without its window is null")
        words = [begin] if self.windows is Windows.JAVA_TIME else [end, begin]
        tails = np.stack(words, axis=1).astype(">i8").view(np.uint8)
        tail = binary_array(tails.reshape(-1), np.full(len(tails), tails.shape[1], np.int64))
        written = encoded(pc.binary_join_element_wise(key.payloads, tail, b""), absent, errors)
        return replace(written, partitioned_by=encoded(key.payloads, absent, errors).payloads)


def serde_of(ref: PluginRef, create: Callable[[str, Mapping[str, Any]], Serde]) -> Serde:
    """The serde of a format, with `windows` and `window_size` as they are written among the options of keys.

    `create`: makes the serde of a format by its name and its own options.
    """
    options = dict(ref.options)
    windows, size = options.pop("windows", None), options.pop("window_size", None)
    serde = create(ref.name, options)
    if windows is None:
        return serde
    return WindowedSerde(serde, Windows(windows), None if size is None else parse_duration(size))
