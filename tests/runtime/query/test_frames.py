"""Rows as frames of other libraries: values of every type arrive as they are."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from headwater.runtime.query.rows import Rows
from headwater.runtime.records.types import columns_ddl, parse_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = parse_columns(
    "`key.small` tinyint, short smallint, whole int, long bigint, single float, double double, yes boolean, "
    "text string, raw binary, day date, moment timestamp, local timestamp_ntz, amount decimal(38,10), "
    "many array<timestamp>, pair struct<`a b`:int,b:array<string>>, named map<string,decimal(5,2)>, "
    "keyed map<struct<x:int>,int>"
)
MOMENT = datetime(2024, 5, 1, 8, 0, 0, 1, UTC)
VALUES: list[Any] = [
    1, 2, 3, 2**62 + 1, 0.5, 0.1, True, "tea ☕", b"\x00\xff", date(1900, 1, 1), MOMENT, MOMENT.replace(tzinfo=None),
    Decimal("12345678901234567890.0123456789"), [MOMENT, None], {"a b": 1, "b": ["x", None]},
    [("one", Decimal("1.50"))], [({"x": 1}, 2)],
]  # fmt: skip


@pytest.fixture
def rows() -> Rows[None]:
    """A row of values and one of nulls."""
    schema = pa.schema(list(COLUMNS.items()))
    columns = [pa.array([value, None], kind) for value, kind in zip(VALUES, COLUMNS.values(), strict=True)]

    def none() -> Iterator[None]:
        return iter(())

    def no_session() -> SparkSession:
        raise AssertionError("no session is needed")

    return Rows("everything", schema, none, lambda: pa.table(columns, schema=schema), no_session)


def test_pandas_frame_has_the_values(rows: Rows[None]) -> None:
    frame = rows.to_pandas()

    assert frame["long"].tolist()[0] == 2**62 + 1
    assert [str(frame[name].dtype) for name in ("key.small", "short", "whole", "long", "yes")] == [
        "Int8", "Int16", "Int32", "Int64", "boolean",
    ]  # fmt: skip
    assert frame["moment"].iloc[0] == MOMENT
    assert frame["amount"].iloc[0] == VALUES[12]
    assert (frame["named"].iloc[0], frame["keyed"].iloc[0]) == (VALUES[-2], VALUES[-1])
    assert frame.iloc[1].isna().all()


@pytest.mark.spark
def test_spark_frame_has_the_types_and_values(rows: Rows[None], spark_session: SparkSession) -> None:
    frame = rows.to_spark(spark_session)

    assert frame.schema == spark_session.createDataFrame([], columns_ddl(COLUMNS)).schema
    assert frame.toArrow().cast(rows.schema).equals(rows.to_arrow())
