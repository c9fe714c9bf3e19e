import datetime as dt
import math
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from headwater.runtime.python_functions.objects import RowType, UnfitRowError
from headwater.runtime.python_functions.results import UnfitValueError
from headwater.runtime.records.types import arrow_type

TIME = dt.datetime(2024, 5, 1, 8, 2, 11, 120, tzinfo=dt.UTC)
EVERY_TYPE = [
    ("boolean", True),
    ("tinyint", -3),
    ("bigint", 2**53 + 1),
    ("float", 0.10000000149011612),
    ("double", math.inf),
    ("string", "é\n"),
    ("binary", b"\x00\xff"),
    ("decimal(5,2)", Decimal("-1.50")),
    ("date", dt.date(2013, 1, 2)),
    ("timestamp", TIME),
    ("timestamp_ntz", TIME.replace(tzinfo=None)),
    ("array<timestamp>", [TIME, None]),
    ("array<array<int>>", [[1], None, []]),
    ("struct<a:date,b:array<timestamp>>", {"a": dt.date(2013, 1, 2), "b": [TIME]}),
    ("map<string,timestamp>", {"x": TIME, "y": None}),
    ("map<struct<a:int>,map<int,date>>", [({"a": 1}, {2: dt.date(2013, 1, 2)})]),
]


@pytest.mark.parametrize(("ddl", "value"), EVERY_TYPE)
def test_a_value_of_each_type_comes_back_as_it_was_given(ddl: str, value: Any) -> None:
    rows = RowType({"x": arrow_type(ddl), "y": pa.int64()})
    made = [rows.of({"x": value, "y": 1}), rows.of({"x": None, "y": None}), None]
    columns = rows.to_columns(made)
    assert columns["x"].type == arrow_type(ddl)
    found = rows.rows(columns, np.array([True, True, False]))
    assert found == made
    assert found[0] is not None
    assert (type(found[0].x), found[0].x) == (type(value), value)
    sliced = {name: column.slice(1) for name, column in columns.items()}
    assert rows.rows(sliced, np.array([True, False])) == made[1:]


@pytest.mark.parametrize(
    ("ddl", "given", "kept"),
    [
        ("double", 1, 1.0),
        ("double", np.float32(0.5), 0.5),
        ("float", 0.1, 0.10000000149011612),
        ("bigint", np.int32(7), 7),
        ("boolean", np.True_, True),
        ("decimal(5,2)", 3, Decimal("3.00")),
        ("decimal(5,2)", Decimal("1.5000"), Decimal("1.50")),
        ("timestamp", TIME.astimezone(dt.timezone(dt.timedelta(hours=2))), TIME),
        ("timestamp", pd.Timestamp(TIME), TIME),
        ("array<double>", (1, 2), [1.0, 2.0]),
        ("struct<a:double>", SimpleNamespace(a=1), {"a": 1.0}),
    ],
)
def test_a_result_is_kept_as_it_would_be_read_from_a_store(ddl: str, given: Any, kept: Any) -> None:
    rows = RowType({"x": arrow_type(ddl)})
    found = rows.of(SimpleNamespace(x=given))
    assert (type(found.x), found.x) == (type(kept), kept)
    assert rows.rows(rows.to_columns([found]), np.array([True])) == [found]


@pytest.mark.parametrize(
    ("ddl", "given", "said"),
    [
        ("bigint", 1.0, "x: 1.0 is no bigint"),
        ("bigint", True, "x: True is no bigint"),
        ("tinyint", 128, "x: 128 is no tinyint"),
        ("double", "1", "x: '1' is no double"),
        ("double", 10**400, "is no double"),
        ("float", 1e39, "is no float"),
        ("string", 1, "x: 1 is no string"),
        ("string", "\ud800", "is no text that UTF-8 can write"),
        ("binary", "a", "x: 'a' is no binary"),
        ("decimal(5,2)", 1.5, "convert it to a Decimal first"),
        ("decimal(5,2)", Decimal("0.125"), "is no decimal(5,2)"),
        ("decimal(5,2)", Decimal("1000"), "is no decimal(5,2)"),
        ("decimal(5,2)", Decimal("NaN"), "is no decimal(5,2)"),
        ("date", TIME, "is no date"),
        ("timestamp", "2024-05-01T08:02:11Z", "is no timestamp"),
        ("timestamp", dt.datetime(2024, 5, 1), "has no time zone"),
        ("array<int>", "12", "x: '12' is no array<int>"),
        ("array<int>", [1, "2"], "x: '2' is no int"),
        ("struct<count:int>", {"cuont": 1}, "x: it lacks count, and 'cuont' is no column: did you mean 'count'?"),
        ("map<string,int>", {None: 1}, "a map has no key None"),
    ],
)
def test_a_result_that_a_column_cannot_hold_is_refused(ddl: str, given: Any, said: str) -> None:
    with pytest.raises(UnfitValueError) as caught:
        RowType({"x": arrow_type(ddl)}).of({"x": given})
    assert said in caught.value.cause


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"x": 1}, "it lacks y"),
        ({"x": 1, "y": 2, "z": 3}, "'z' is no column"),
        (SimpleNamespace(x=1), "namespace(x=1) has no y"),
        (3, "3 has no x, y; give a mapping by column, {'x': ...}, or an object with these attributes"),
    ],
)
def test_a_result_has_all_columns_and_no_others(given: Any, said: str) -> None:
    with pytest.raises(UnfitValueError) as caught:
        RowType({"x": pa.int64(), "y": pa.int64()}).of(given)
    assert caught.value.cause == said


def test_a_row_shows_its_columns_and_cannot_be_changed() -> None:
    row = RowType({"a b": pa.int64(), "count": pa.string()}).of({"a b": 1, "count": None})
    assert (repr(row), row.count, getattr(row, "a b")) == ("Row(a b=1, count=None)", None, 1)
    with pytest.raises(AttributeError):
        row.count = 2


def test_lists_that_a_function_changes_are_not_those_of_other_rows() -> None:
    rows = RowType({"pages": pa.list_(pa.string())})
    row = rows.of({"pages": ["a"]})
    given = rows.copy(row)
    given.pages.append("b")
    after = rows.of(given)
    given.pages.append("c")
    assert (row.pages, after.pages) == (["a"], ["a", "b"])


def test_rows_of_other_types_are_other_rows() -> None:
    narrow, wide = RowType({"x": pa.int64()}), RowType({"x": pa.float64()})
    assert type(wide.of(narrow.of({"x": 1})).x) is float


def test_a_time_that_python_does_not_have_names_its_row() -> None:
    times = pa.array([0, 2**62], pa.int64()).cast(pa.timestamp("us", "UTC"))
    with pytest.raises(UnfitRowError, match="t holds a time outside of the years 1 to 9999") as caught:
        RowType({"t": times.type}).rows({"t": times}, np.array([True, True]))
    assert caught.value.row == 1
