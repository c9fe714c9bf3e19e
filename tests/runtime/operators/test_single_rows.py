"""Single keys and rows are the same bytes as columns of them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from headwater.runtime.engine.execution.processing.epoch_rows import SingleKeys, SingleRows
from headwater.runtime.python_functions.results import to_column
from headwater.runtime.records.keys import encode_keys
from headwater.runtime.records.types import arrow_type
from headwater.runtime.state.codec import RowCodec

VALUES = {
    "boolean": [True, False],
    "tinyint": [-128, 0, 127],
    "smallint": [-(2**15), 7],
    "int": [-(2**31), -1, 2**31 - 1],
    "bigint": [-(2**63), 0, 2**63 - 1],
    "float": [-1.5, 0.0, -0.0, float("inf")],
    "double": [-1e300, 0.1, -0.0, float("-inf")],
    "string": ["", "a", "a\0b", "\0", "ä€😀"],
    "binary": [b"", b"\0\xff\0", b"x"],
    "date": [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)],
    "timestamp": [datetime(1, 1, 1, tzinfo=UTC), datetime(2024, 2, 29, 1, 2, 3, 4567, tzinfo=UTC)],
    "timestamp_ntz": [datetime(1969, 12, 31, 23, 59, 59, 999_999), datetime(9999, 12, 31, 23, 59, 59, 999_999)],
    "decimal(20,3)": [Decimal("-12345678901234567.891"), Decimal("0.000"), Decimal("1.500")],
    "array<int>": [[], [1, None, -1]],
    "struct<a:int,b:string>": [{"a": 1, "b": None}, {"a": None, "b": "x"}],
}


@pytest.mark.parametrize("written", VALUES)
def test_single_keys_are_those_of_columns(written: str) -> None:
    kind = arrow_type(written)
    values = [*VALUES[written], None]
    keys = SingleKeys({"first": kind, "second": pa.string()})
    columns = [to_column(values, kind), pa.array(["z"] * len(values))]
    encoded = [keys.encode((value, "z")) for value in values]
    assert encoded == encode_keys(columns).to_pylist()
    assert [keys.encode((value,)) for value in values] == [each.removesuffix(b"\1z\0") for each in encoded]
    assert keys.decode(encoded) == [(value, "z") for value in values]


@pytest.mark.parametrize("written", [*VALUES, "map<string,int>"])
@pytest.mark.parametrize("beside", ["int", "string"])
def test_single_rows_are_those_of_columns(written: str, beside: str) -> None:
    kinds = {"x": arrow_type(written), "y": arrow_type(beside)}
    values = [*VALUES.get(written, [{}, {"a": None, "b": 2}]), None]
    rows = [(value, VALUES[beside][number % 2]) for number, value in enumerate(values)]
    rows += [(values[0], None)]
    columns = [to_column([row[at] for row in rows], kind) for at, kind in enumerate(kinds.values())]
    times = np.arange(len(rows)) * 1000
    encoded = RowCodec(kinds).encode(columns, times)
    single = SingleRows(kinds)
    assert [single.decode(row) for row in encoded] == list(zip(rows, times.tolist(), strict=True))
