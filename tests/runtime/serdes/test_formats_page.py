"""The page on formats says what the formats hold, and the example of the page on plugins works."""

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from headwater.plugins.manager import PluginManager
from headwater.runtime.ir.topology import SchemaRegistry
from headwater.runtime.records.types import TIMESTAMP, ddl
from headwater.runtime.serdes.serde import Direction, PayloadSpec, Role
from headwater.tests.runtime.serdes.columns import SIMPLE

DOCS = Path(__file__).parents[3] / "docs"
TABLE = re.findall(r"^\| `(\w+)` \| .+ \| .* \| (.+) \| (.+) \|$", (DOCS / "kafka/formats.md").read_text("utf-8"), re.M)
PLAIN = {ddl(kind): kind for kind in SIMPLE if not pa.types.is_decimal(kind)}


def holds(name, direction, data_type):
    serde = PluginManager(installed=False).serdes.create(name)
    return not serde.check(PayloadSpec("topic", Role.VALUE, {"a": data_type}, SchemaRegistry("")), direction)


def test_page_has_every_builtin_format():
    assert {name for name, _, _ in TABLE} == set(PluginManager(installed=False).serdes)


@pytest.mark.parametrize(("name", "read", "written"), TABLE)
def test_format_holds_the_types_of_the_page_and_no_others(name, read, written):
    for direction, cell in ((Direction.READ, read), (Direction.WRITE, written)):
        named = set(PLAIN) if cell == "every type" else set(re.findall(r"`(\w+)`", cell))
        assert {kind for kind, data_type in PLAIN.items() if holds(name, direction, data_type)} == named


@pytest.mark.parametrize(
    ("name", "digits"),
    [(row[0], *re.findall(r"decimal\((\d+),0", row[1])) for row in TABLE if row[0] in ("smallint", "int", "bigint")],
)
def test_decimal_needs_all_digits_of_a_whole_number(name, digits):
    assert holds(name, Direction.READ, pa.decimal128(int(digits), 0))
    assert holds(name, Direction.READ, pa.decimal128(int(digits) + 2, 2))
    assert not holds(name, Direction.READ, pa.decimal128(int(digits) - 1, 0))
    assert not holds(name, Direction.READ, pa.decimal128(int(digits) + 1, 2))
    assert not holds(name, Direction.WRITE, pa.decimal128(1, 0))


def test_problem_says_what_to_declare():
    serde = PluginManager(installed=False).serdes.create("int")

    def problems(direction, **columns):
        spec = PayloadSpec("topic", Role.KEY, columns)
        return [(problem.column, problem.message) for problem in serde.check(spec, direction)]

    assert problems(Direction.READ, a=pa.int16()) == [
        ("a", "the format int holds no smallint; declare int, or use another format")
    ]
    assert problems(Direction.WRITE, a=TIMESTAMP) == [
        ("a", "the format int holds no timestamp; convert it to int, or use another format")
    ]
    assert problems(Direction.READ) == [(None, "the format int holds one column, and this key has none; use json")]
    assert problems(Direction.READ, a=pa.int32(), b=pa.int32()) == [
        (None, "the format int holds one column, and this key has a, b; use json")
    ]


def test_null_that_is_no_tombstone_is_an_error_of_a_format_of_one_column():
    serde = PluginManager(installed=False).serdes.create("int")
    columns = pa.record_batch({"a": pa.array([1, None, None], pa.int16())})

    written = serde.serializer(PayloadSpec("topic", Role.VALUE, {"a": pa.int16()})).write(
        columns, np.array([False, True, False])
    )

    assert written.payloads.to_pylist() == [bytes([0, 0, 0, 1]), None, None]
    assert written.errors == {2: "the format int has no null but that of a tombstone"}


def test_bytes_of_another_length_or_value_are_errors():
    def errors(name, *payloads):
        serde = PluginManager(installed=False).serdes.create(name)
        spec = PayloadSpec(
            "topic", Role.VALUE, {"a": {"uuid": pa.string(), "boolean": pa.bool_()}.get(name, pa.int32())}
        )
        return serde.deserializer(spec).read(pa.array(payloads, pa.binary())).errors

    assert errors("int", b"", b"\0" * 5, b"\0" * 4) == {
        0: "0 bytes are no int, which has 4",
        1: "5 bytes are no int, which has 4",
    }
    assert errors("boolean", b"\2", b"\1") == {0: "the byte 0x02 is no boolean"}
    assert errors("uuid", b"1-1-1-1-1", b"\xff") == {
        0: "'1-1-1-1-1' is no UUID",
        1: "the byte 0xff at position 1 is not UTF-8",
    }


def test_example_of_the_page_on_plugins_works():
    section = (DOCS / "plugins.md").read_text("utf-8").split("\n### headwater_register_serdes\n")[1]
    module = dict[str, object]()
    exec(section.split("```python\n")[1].split("```")[0], module)
    manager = PluginManager(installed=False)
    plugin = type("plugin", (), {"headwater_register_serdes": staticmethod(module["headwater_register_serdes"])})
    manager.register(plugin, "mine")
    serde = manager.serdes.create("latin1")
    spec = PayloadSpec("topic", Role.VALUE, {"a": pa.string()})
    columns = pa.record_batch({"a": ["é", "", None, "€"]})

    written = serde.serializer(spec).write(columns, np.array([False, False, True, False]))
    read = serde.deserializer(spec).read(written.payloads)

    assert written.payloads.to_pylist() == [b"\xe9", b"", None, None]
    assert written.errors == {3: "'€' is not in Latin-1"}
    assert read.columns.column(0).to_pylist() == ["é", "", None, None]
    assert len(serde.check(PayloadSpec("topic", Role.VALUE, {"a": pa.int32()}), Direction.READ)) == 1
