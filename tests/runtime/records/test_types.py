import pyarrow as pa
import pytest

from headwater.runtime.engine.execution.rows import physical_columns
from headwater.runtime.engine.operators.operator import Flow
from headwater.runtime.records.types import (
    TypeSyntaxError,
    arrow_type,
    columns_ddl,
    ddl,
    parse_columns,
    quote,
    split_columns,
)

CASES = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "decimal(10,2)": pa.decimal128(10, 2),
    "array<string>": pa.list_(pa.string()),
    "map<string,array<int>>": pa.map_(pa.string(), pa.list_(pa.int32())),
    "struct<a:int,`b c`:decimal(5,0)>": pa.struct({"a": pa.int32(), "b c": pa.decimal128(5, 0)}),
    "array<struct<x:map<int,double>>>": pa.list_(pa.struct({"x": pa.map_(pa.int32(), pa.float64())})),
    "struct<>": pa.struct([]),
}


@pytest.mark.parametrize("text", CASES)
def test_sql_type_read_and_written_is_the_same(text):
    assert arrow_type(text) == CASES[text]
    assert ddl(CASES[text]) == text


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("INTEGER", "int"),
        ("long", "bigint"),
        ("real", "float"),
        ("byte", "tinyint"),
        ("short", "smallint"),
        ("timestamp_ltz", "timestamp"),
        ("decimal", "decimal(10,0)"),
        ("numeric(7)", "decimal(7,0)"),
        ("varchar(20)", "string"),
        (" Array < Int > ", "array<int>"),
        ("struct<a int, b: string>", "struct<a:int,b:string>"),
    ],
)
def test_other_writing_of_a_type_becomes_canonical(text, canonical):
    assert ddl(arrow_type(text)) == canonical


def test_column_list_keeps_names_order_and_nested_commas():
    columns = parse_columns("b bigint, `a, 1` decimal(10,2), c struct<x:int,y:array<map<string,int>>>, `t``k` date")
    assert list(columns) == ["b", "a, 1", "c", "t`k"]
    assert columns["a, 1"] == pa.decimal128(10, 2)
    assert columns["c"] == pa.struct({"x": pa.int32(), "y": pa.list_(pa.map_(pa.string(), pa.int32()))})


def test_column_list_split_gives_names_and_type_texts():
    assert split_columns("a int, b decimal(3, 1)") == [("a", "int"), ("b", "decimal(3,1)")]


def test_empty_column_list_has_no_columns():
    assert parse_columns("") == {}
    assert parse_columns("  ") == {}


def test_columns_written_and_read_again_are_the_same():
    columns = {"a b": pa.int8(), "c": pa.map_(pa.date32(), pa.bool_()), "ü": pa.string()}
    assert parse_columns(columns_ddl(columns)) == columns


@pytest.mark.parametrize(
    ("text", "position", "reason"),
    [
        ("a int,", 6, "expected a name"),
        ("a", 1, "expected a type"),
        ("a intt", 1, "'intt' is no type"),
        ("a int, a string", 6, "'a' is there twice"),
        ("a array<int", 11, "expected '>'"),
        ("a decimal(39,1)", 9, "decimal(39,1) is out of range"),
        ("a decimal(2,3)", 9, "decimal(2,3) is out of range"),
        ("a decimal(x)", 10, "expected a number"),
        ("a int not null", 5, "unexpected text"),
        ("a interval", 1, "'interval' is no type"),
    ],
)
def test_wrong_column_list_names_place_and_reason(text, position, reason):
    with pytest.raises(TypeSyntaxError) as caught:
        parse_columns(text)
    assert (caught.value.position, caught.value.reason) == (position, reason)


def test_arrow_type_without_sql_type_is_refused():
    with pytest.raises(TypeError, match="uint8"):
        ddl(pa.uint8())


@pytest.mark.parametrize(
    ("name", "quoted"),
    [("a", "a"), ("_x1", "_x1"), ("1x", "`1x`"), ("key.a", "`key.a`"), ("a`b", "`a``b`"), ("é", "`é`")],
)
def test_name_is_in_backticks_unless_plain(name, quoted):
    assert quote(name) == quoted


def test_physical_columns_rename_only_keys_that_the_value_has_too():
    columns = physical_columns(Flow("a string, b int", "b double, c int"))
    assert columns == {"a": pa.string(), "key.b": pa.int32(), "b": pa.float64(), "c": pa.int32()}
    assert list(columns) == ["a", "key.b", "b", "c"]


def test_columns_that_a_caller_changes_are_read_again_as_they_are_written() -> None:
    parse_columns("a int, b string").pop("a")
    assert parse_columns("a int, b string") == {"a": pa.int32(), "b": pa.string()}
