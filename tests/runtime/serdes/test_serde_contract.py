"""What every serde promises: see `runtime/serdes/serde.py`. Add a serde to SERDES to put it through this."""

import math
import pickle
from dataclasses import dataclass
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from headwater.plugins.manager import PluginManager
from headwater.runtime.records.keys import normal_key
from headwater.runtime.serdes.serde import Direction, PayloadSpec, Role, Serde, null_keys
from headwater.tests.runtime.serdes.columns import AVRO_TYPES, KEY_TYPES, SIMPLE, TYPES, batches, flags, shown
from headwater.tests.runtime.serdes.messages import KEY_TYPES as KEYS_OF_MESSAGES
from headwater.tests.runtime.serdes.messages import TYPES as TYPES_OF_MESSAGES
from headwater.tests.runtime.serdes.messages import message_batches
from headwater.tests.runtime.serdes.served_registry import served_registry


def builtin(name: str, **options: object) -> Serde:
    return PluginManager(installed=False).serdes.create(name, options)


def one_column(data_type, some=None):
    """Batches of one column, without nulls: the formats of one column have none."""
    return st.lists(SIMPLE[data_type] if some is None else some, max_size=5).map(
        lambda rows: pa.record_batch({"c0": pa.array(rows, data_type)})
    )


@dataclass(frozen=True)
class Case:
    """A serde, and batches of columns that it can hold as values and as keys."""

    serde: Serde
    values: st.SearchStrategy
    keys: st.SearchStrategy


def single(name, data_type, some=None):
    return Case(builtin(name), one_column(data_type, some), one_column(data_type, some))


def finite(some: st.SearchStrategy) -> st.SearchStrategy:
    """Batches without NaN and infinity: they become 0.5."""

    def without(value: object) -> object:
        if isinstance(value, float):
            return value if math.isfinite(value) else 0.5
        if isinstance(value, dict):
            return {name: without(field) for name, field in value.items()}
        return type(value)(map(without, value)) if isinstance(value, list | tuple) else value

    return some.map(
        lambda batch: pa.RecordBatch.from_arrays(
            [pa.array(without(column.to_pylist()), column.type) for column in batch.columns], schema=batch.schema
        )
    )


SERDES = {
    "json_schema": Case(builtin("json_schema", register=True), finite(batches(TYPES)), finite(batches(KEY_TYPES))),
    "protobuf": Case(
        builtin("protobuf", register=True), message_batches(TYPES_OF_MESSAGES), message_batches(KEYS_OF_MESSAGES)
    ),
    "avro": Case(builtin("avro", register=True), batches(AVRO_TYPES), batches(KEY_TYPES)),
    "json": Case(builtin("json"), batches(TYPES), batches(KEY_TYPES)),
    "string": single("string", pa.string()),
    "binary": single("binary", pa.binary()),
    "uuid": single("uuid", pa.string(), st.uuids().map(str)),
    "boolean": single("boolean", pa.bool_()),
    "smallint": single("smallint", pa.int16()),
    "int": single("int", pa.int32()),
    "bigint": single("bigint", pa.int64()),
    "float": single("float", pa.float32()),
    "double": single("double", pa.float64()),
}

every_serde = pytest.mark.parametrize("name", SERDES)


def spec_of(name, batch, role):
    # A topic for each list of columns: a schema that is there may hold them, too, and wider ones.
    topic = f"{name}-{crc32(str(batch.schema).encode())}"
    return PayloadSpec(topic, role, {field.name: field.type for field in batch.schema}, served_registry())


def drawn(data, name, role):
    case = SERDES[name]
    batch = data.draw(case.keys if role is Role.KEY else case.values)
    spec = spec_of(name, batch, role)
    for direction in Direction:
        assert not case.serde.check(spec, direction)
    return case.serde, spec, batch


@every_serde
def test_what_a_serde_makes_can_be_sent_to_other_processes(name):
    spec = PayloadSpec("topic", Role.VALUE, {"c0": pa.string()}, served_registry())
    serde = SERDES[name].serde

    for made in (serde, serde.deserializer(spec), serde.serializer(spec)):
        assert type(pickle.loads(pickle.dumps(made))) is type(made)


def test_every_builtin_serde_is_put_through_this():
    assert set(PluginManager(installed=False).serdes) == set(SERDES)


@every_serde
@given(st.data())
def test_values_come_back_and_tombstones_too(name, data):
    serde, spec, batch = drawn(data, name, Role.VALUE)
    absent = np.array(data.draw(flags(batch.num_rows)), np.bool_)

    written = serde.serializer(spec).write(batch, absent)
    read = serde.deserializer(spec).read(written.payloads)

    assert (written.errors, read.errors) == ({}, {})
    assert written.payloads.type == pa.binary()
    assert written.payloads.is_null().to_pylist() == absent.tolist()
    assert read.columns.schema == spec.schema
    read.columns.validate(full=True)
    nothing = dict.fromkeys(batch.schema.names)
    rows = [nothing if gone else row for gone, row in zip(absent, batch.to_pylist(), strict=True)]
    assert repr(read.columns.to_pylist()) == repr(rows)


@every_serde
@given(st.data())
def test_keys_come_back_as_equal_keys(name, data):
    serde, spec, batch = drawn(data, name, Role.KEY)
    absent = null_keys(batch)

    written = serde.serializer(spec).write(batch, absent)
    read = serde.deserializer(spec).read(written.payloads)

    assert (written.errors, read.errors) == ({}, {})
    assert written.payloads.is_null().to_pylist() == absent.tolist()
    normal = pa.RecordBatch.from_arrays([normal_key(column) for column in batch.columns], schema=batch.schema)
    assert shown(read.columns) == shown(normal)
    assert (written.partitions(7) == -1).tolist() == absent.tolist()


@every_serde
@given(st.data(), st.lists(st.none() | st.binary(max_size=9) | st.just(b"{}"), max_size=4))
def test_bad_payload_is_an_error_of_its_row_and_no_other(name, data, others):
    serde, spec, batch = drawn(data, name, Role.VALUE)
    written = serde.serializer(spec).write(batch, np.zeros(batch.num_rows, np.bool_))
    mixed = data.draw(st.permutations([*written.payloads.to_pylist(), *others]))
    deserializer = serde.deserializer(spec)

    read = deserializer.read(pa.array([b"before", *mixed], pa.binary())[1:])

    alone = [deserializer.read(pa.array([payload], pa.binary())) for payload in mixed]
    assert dict(read.errors) == {row: one.errors[0] for row, one in enumerate(alone) if one.errors}
    assert read.columns.schema == spec.schema
    assert [shown(read.columns[row : row + 1]) for row in range(len(mixed))] == [shown(one.columns) for one in alone]
    for row, error in read.errors.items():
        assert mixed[row] is not None
        assert error
        assert set(read.columns.to_pylist()[row].values()) == {None}


@every_serde
@given(st.data())
def test_columns_of_a_slice_are_written_as_those_of_a_copy(name, data):
    serde, spec, batch = drawn(data, name, Role.VALUE)
    assume(batch.num_rows > 0)
    batch = pa.Table.from_batches([batch, batch]).combine_chunks().to_batches()[0]
    copy = batch.take(pa.array(range(1, batch.num_rows)))
    absent = np.zeros(batch.num_rows - 1, np.bool_)

    assert serde.serializer(spec).write(batch[1:], absent) == serde.serializer(spec).write(copy, absent)
