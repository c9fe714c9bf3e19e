"""The bytes of Java's serializers, written down once by running them: kafka-clients and kafka-streams 4.4.0.

Partitions among 12 are those of `BuiltInPartitioner.partitionForKey`, of windowed keys those of
`WindowedStreamPartitioner`.
"""

import datetime as dt
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.runtime.records.keys import normal_key
from headwater.runtime.records.schema import WINDOW_COLUMNS
from headwater.runtime.records.types import TIMESTAMP
from headwater.runtime.serdes.json import JsonSerde
from headwater.runtime.serdes.primitives import PRIMITIVES, PrimitiveSerde
from headwater.runtime.serdes.serde import Direction, PayloadSpec, Role, null_keys
from headwater.runtime.serdes.windows import WindowedSerde, Windows
from headwater.tests.runtime.serdes.columns import KEY_TYPES, batches, shown

VECTORS = [
    ("int", 0, "00000000", 4),
    ("int", 1, "00000001", 0),
    ("int", -1, "ffffffff", 5),
    ("int", 42, "0000002a", 0),
    ("int", -(2**31), "80000000", 6),
    ("int", 2**31 - 1, "7fffffff", 3),
    ("bigint", 0, "0000000000000000", 11),
    ("bigint", -1, "ffffffffffffffff", 5),
    ("bigint", 1357041600000, "0000013bf5fb8600", 9),
    ("bigint", -(2**63), "8000000000000000", 4),
    ("bigint", 2**63 - 1, "7fffffffffffffff", 8),
    ("smallint", 7, "0007", 11),
    ("smallint", -(2**15), "8000", 10),
    ("double", 0.0, "0000000000000000", 11),
    ("double", -0.0, "8000000000000000", 4),
    ("double", 0.1, "3fb999999999999a", 5),
    ("double", -1.5e300, "fe41eb2d66005835", 6),
    ("double", math.nan, "7ff8000000000000", 7),
    ("double", math.inf, "7ff0000000000000", 10),
    ("float", 0.1, "3dcccccd", 5),
    ("float", -2.5, "c0200000", 9),
    ("float", math.nan, "7fc00000", 10),
    ("boolean", True, "01", 9),
    ("boolean", False, "00", 8),
    ("string", "", "", 9),
    ("string", "UA", "5541", 10),
    ("string", "grüße", "6772c3bcc39f65", 8),
    ("string", "😀", "f09f9880", 9),
    ("uuid", "00000000-0000-0000-0000-000000000000", b"00000000-0000-0000-0000-000000000000".hex(), 9),
    ("uuid", "F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6", b"f81d4fae-7dec-11d0-a765-00a0c91e6bf6".hex(), 8),
]

WINDOWED = [
    ("UA", 0, 300_000, "55410000000000000000", "554100000000000493e00000000000000000", 10),
    ("", 0, 300_000, "0000000000000000", "00000000000493e00000000000000000", 9),
    ("UA", 1357041600000, 1357041900000, "55410000013bf5fb8600", "55410000013bf60019e00000013bf5fb8600", 10),
    ("", 1357041600000, 1357041900000, "0000013bf5fb8600", "0000013bf60019e00000013bf5fb8600", 9),
]
"""Key, start and end in ms, time-windowed bytes, session-windowed bytes, partition."""

STRING = PrimitiveSerde(PRIMITIVES["string"])
WINDOWED_KEY = {"k": pa.string(), "window_start": TIMESTAMP, "window_end": TIMESTAMP}


@pytest.mark.parametrize(("name", "value", "written", "partition"), VECTORS)
def test_bytes_and_partition_are_those_of_java(name, value, written, partition):
    primitive = PRIMITIVES[name]
    # -0.0 and 0.0 are one key here, and two in Java. So the values of both are compared, but not the key -0.0.
    negative_zero = isinstance(value, float) and value == 0 and math.copysign(1, value) < 0
    spec = PayloadSpec("topic", Role.VALUE if negative_zero else Role.KEY, {"k": primitive.data_type})
    columns = pa.record_batch({"k": pa.array([value], primitive.data_type)})

    payloads = PrimitiveSerde(primitive).serializer(spec).write(columns, np.zeros(1, np.bool_))
    read = PrimitiveSerde(primitive).deserializer(spec).read(pa.array([bytes.fromhex(written)], pa.binary()))

    assert [payload.hex() for payload in payloads.payloads.to_pylist()] == [written]
    assert payloads.partitions(12).tolist() == [partition]
    expected = columns if name != "uuid" else pa.record_batch({"k": [value.lower()]})
    assert (repr(read.columns.to_pylist()), read.errors) == (repr(expected.to_pylist()), {})


def windowed(rows):
    times = [[dt.datetime.fromtimestamp(row[at] / 1000, dt.UTC) for row in rows] for at in (1, 2)]
    return pa.RecordBatch.from_arrays(
        [pa.array([row[0] for row in rows]), *(pa.array(column, TIMESTAMP) for column in times)], list(WINDOWED_KEY)
    )


@pytest.mark.parametrize(("windows", "at"), [(Windows.JAVA_TIME, 3), (Windows.JAVA_SESSION, 4)])
def test_windowed_key_is_that_of_kafka_streams(windows, at):
    spec = PayloadSpec("topic", Role.KEY, WINDOWED_KEY)
    serde = WindowedSerde(STRING, windows, 300_000)
    columns = windowed(WINDOWED)
    written = [row[at] for row in WINDOWED]

    payloads = serde.serializer(spec).write(columns, np.zeros(len(WINDOWED), np.bool_))
    read = serde.deserializer(spec).read(pa.array([*map(bytes.fromhex, written), None], pa.binary()))

    assert [payload.hex() for payload in payloads.payloads.to_pylist()] == written
    assert payloads.partitions(12).tolist() == [row[5] for row in WINDOWED]
    assert read.errors == {}
    assert read.columns.schema == spec.schema
    assert read.columns.to_pylist() == [*columns.to_pylist(), dict.fromkeys(WINDOWED_KEY)]


@given(st.data(), st.sampled_from([Windows.FIELDS, Windows.JAVA_TIME, Windows.JAVA_SESSION]))
def test_windowed_keys_come_back(data, windows):
    keys = data.draw(batches(KEY_TYPES))
    starts = data.draw(st.lists(st.integers(0, 2**47), min_size=len(keys), max_size=len(keys)))
    size = data.draw(st.integers(0, 2**40))
    bounds = [pa.array([1000 * (start + to) for start in starts], pa.int64()).cast(TIMESTAMP) for to in (0, size)]
    columns = pa.RecordBatch.from_arrays([*keys.columns, *bounds], [*keys.schema.names, *WINDOW_COLUMNS])
    spec = PayloadSpec("topic", Role.KEY, {field.name: field.type for field in columns.schema})
    serde = WindowedSerde(JsonSerde(), windows, size)

    written = serde.serializer(spec).write(columns, np.zeros(len(keys), np.bool_))
    read = serde.deserializer(spec).read(written.payloads)

    without_key = null_keys(keys) & (windows is not Windows.FIELDS)
    assert list(written.errors) == np.flatnonzero(without_key).tolist()
    kept = pa.array(~without_key)
    normal = pa.RecordBatch.from_arrays([normal_key(column) for column in columns.columns], schema=spec.schema)
    assert shown(read.columns.filter(kept)) == shown(normal.filter(kept))
    assert read.errors == {}


def test_window_that_is_none_is_an_error_of_its_key():
    spec = PayloadSpec("topic", Role.KEY, WINDOWED_KEY)
    payloads = [b"UA" + bytes(8), b"short", b"", b"UA" + b"\xff" * 8, b"\xff" + bytes(8), b"UA" + b"\x7f" * 8]

    read = WindowedSerde(STRING, Windows.JAVA_TIME, 5).deserializer(spec).read(pa.array(payloads, pa.binary()))
    session = (
        WindowedSerde(STRING, Windows.JAVA_SESSION)
        .deserializer(spec)
        .read(pa.array([b"UA" + bytes(15) + b"\x01", b"UA" + bytes(8)], pa.binary()))
    )

    assert read.errors == {
        1: "5 bytes are too few for a key with a window, which has 8 for it",
        2: "0 bytes are too few for a key with a window, which has 8 for it",
        3: "there is no window from -1 to 4 ms",
        4: "the byte 0xff at position 1 is not UTF-8",
        5: "there is no window from 9187201950435737471 to 253402300800004 ms",
    }
    assert [row["k"] for row in read.columns.to_pylist()] == ["UA", None, None, None, None, None]
    assert session.errors == {
        0: "there is no window from 1 to 0 ms",
        1: "10 bytes are too few for a key with a window, which has 16 for it",
    }


def test_windowed_key_that_java_could_not_write_is_an_error():
    spec = PayloadSpec("topic", Role.KEY, WINDOWED_KEY)
    columns = windowed([("UA", 0, 5), (None, 0, 5), ("UA", 0, 6)])
    unbounded = pa.RecordBatch.from_arrays(
        [pa.array(["UA", None]), pa.array([None, None], TIMESTAMP), pa.array([5, None], TIMESTAMP)], list(WINDOWED_KEY)
    )

    serializer = WindowedSerde(STRING, Windows.JAVA_TIME, 5).serializer(spec)
    written = serializer.write(columns, np.zeros(3, np.bool_))
    half = WindowedSerde(STRING, Windows.JAVA_TIME).serializer(spec).write(unbounded, np.array([False, True]))

    assert written.errors == {1: "the key without its window is null", 2: "the window is 6 ms long, not 5"}
    assert written.payloads.to_pylist() == [b"UA" + bytes(8), None, None]
    assert written.partitions(12).tolist() == [10, -1, -1]
    assert half.errors == {0: "the window has no start or no end"}
    assert half.payloads.to_pylist() == [None, None]


def test_windows_as_fields_are_numbers_of_json_and_dropped_ones_are_gone():
    spec = PayloadSpec("topic", Role.KEY, WINDOWED_KEY)
    columns = windowed(WINDOWED[2:3])
    fields = WindowedSerde(JsonSerde(), Windows.FIELDS)

    written = fields.serializer(spec).write(columns, np.zeros(1, np.bool_))
    read = fields.deserializer(spec).read(written.payloads)
    dropped = WindowedSerde(JsonSerde(), Windows.DROP).serializer(spec).write(columns, np.zeros(1, np.bool_))

    assert written.payloads.to_pylist() == [b'{"k":"UA","window_start":1357041600000,"window_end":1357041900000}']
    assert read.columns.equals(columns)
    assert dropped.payloads.to_pylist() == [b'{"k":"UA"}']


def test_windows_that_cannot_be_read_or_held_are_problems():
    spec = PayloadSpec("topic", Role.KEY, WINDOWED_KEY)

    def problems(windows, direction, serde=STRING):
        return [problem.message for problem in WindowedSerde(serde, windows).check(spec, direction)]

    assert problems(Windows.JAVA_TIME, Direction.WRITE) == problems(Windows.JAVA_SESSION, Direction.READ) == []
    assert problems(Windows.DROP, Direction.WRITE) == []
    assert problems(Windows.FIELDS, Direction.READ, JsonSerde()) == []
    assert problems(Windows.JAVA_TIME, Direction.READ) == [
        "`windows: java_time` holds starts only; to read it give a `window_size`, such as 5m"
    ]
    assert problems(Windows.DROP, Direction.READ) == [
        "`windows: drop` has no windows to read; declare the topic without `windowed`"
    ]
    assert problems(Windows.FIELDS, Direction.WRITE) == [
        "the format string holds one column, and this key has k, window_start, window_end; "
        "use json, or `windows: java_time`"
    ]
