"""As which types columns are read that were written as others: each value exactly, or not at all."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headwater.runtime.records.schema import common, common_columns, readable, widened
from headwater.runtime.records.types import arrow_type, ddl, parse_columns

WIDER = [
    ("tinyint", "smallint", [-128, 127]),
    ("smallint", "float", [-32768, 32767]),
    ("int", "bigint", [-(2**31), 2**31 - 1]),
    ("int", "double", [-(2**31), 2**31 - 1]),
    ("bigint", "decimal(21,2)", [-(2**63), 2**63 - 1]),
    ("float", "double", [0.10000000149011612, float("inf")]),
    ("decimal(4,1)", "decimal(6,2)", [Decimal("-999.9")]),
    ("void", "map<string,int>", []),
    ("array<int>", "array<bigint>", [[1, None], []]),
    ("map<string,int>", "map<string,double>", [[("a", 1), ("b", None)], []]),
    ("struct<a:int,b:string>", "struct<c:date,a:bigint>", [{"a": 3, "b": "x"}]),
    ("array<struct<a:int>>", "array<struct<b:int,a:bigint>>", [[{"a": 1}, None], []]),
]

OTHERS = [
    ("bigint", "int"),
    ("int", "float"),
    ("bigint", "double"),
    ("bigint", "decimal(20,2)"),
    ("double", "float"),
    ("decimal(4,1)", "decimal(4,2)"),
    ("decimal(4,1)", "decimal(9,0)"),
    ("int", "string"),
    ("string", "int"),
    ("date", "timestamp"),
    ("timestamp", "timestamp_ntz"),
    ("boolean", "int"),
    ("array<bigint>", "array<int>"),
    ("map<string,int>", "map<int,int>"),
    ("struct<a:int>", "struct<a:string>"),
    ("int", "struct<a:int>"),
]


def as_they_read(values: list[Any], wanted: str) -> list[Any]:
    """What is expected of the values of `WIDER`: themselves, but for fields of structs."""
    if "struct" not in wanted:
        return values
    if wanted.startswith("array"):
        return [value and [each and {"b": None, "a": each["a"]} for each in value] for value in values]
    return [value and {"c": None, "a": value["a"]} for value in values]


@pytest.mark.parametrize(("stored", "wanted", "values"), WIDER)
def test_value_of_a_narrower_type_is_the_same_in_a_wider_one_and_null_stays_null(
    stored: str, wanted: str, values: list[Any]
) -> None:
    whole = pa.array([*values[:1], *values, None, *values], arrow_type(stored))
    found = widened(whole.slice(len(values[:1])), arrow_type(wanted))
    found.validate(full=True)
    assert readable(arrow_type(stored), arrow_type(wanted))
    assert found.type == arrow_type(wanted)
    assert found.to_pylist() == as_they_read([*values, None, *values], wanted)


@pytest.mark.parametrize(("stored", "wanted"), OTHERS)
def test_value_that_would_be_rounded_or_turned_into_something_else_is_not_read(stored: str, wanted: str) -> None:
    assert not readable(arrow_type(stored), arrow_type(wanted))


def test_common_type_has_all_that_both_have_and_there_may_be_none() -> None:
    both = common(arrow_type("struct<a:int,b:array<int>>"), arrow_type("struct<b:array<bigint>,c:date>"))
    assert ddl(both) == "struct<a:int,b:array<bigint>,c:date>"
    assert common(arrow_type("int"), arrow_type("float")) is None
    assert common(arrow_type("map<int,date>"), arrow_type("map<bigint,date>")) == arrow_type("map<bigint,date>")
    assert common_columns(
        parse_columns("a int, b string"), parse_columns("b string, a bigint, c int")
    ) == parse_columns("a bigint, b string, c int")
    assert common_columns(parse_columns("a int"), parse_columns("a string")) is None
