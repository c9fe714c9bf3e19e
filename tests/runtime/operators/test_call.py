"""Calls of Python functions that expressions name: values or arrays in, a column out, and which rows fail."""

from __future__ import annotations

import random
import signal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headwater.runtime.engine.execution.node import EachFailedError
from headwater.runtime.engine.execution.rows import Rows
from headwater.runtime.engine.operators.stateless import Call
from headwater.runtime.ir.functions import PythonCode, PythonFunction, Udf
from headwater.runtime.python_functions.calling import CallFailedError, column_call
from headwater.runtime.records.types import Kind

TEXT = """
import signal
import sys
from datetime import timedelta
from numbers import Integral

import pyarrow as pa
import pyarrow.compute as pc


def half(n):
    if n is None:
        return None
    if n % 2:
        raise ValueError(f"{n} is odd")
    return n // 2


def halves(n):
    whole = n.drop_null()
    if len(whole) and pc.any(pc.equal(pc.bit_wise_and(whole, 1), 1)).as_py():
        raise ValueError("one is odd")
    return pc.shift_right(n, 1).cast(n.type)


def widened(n):
    return n * 2**40


def as_text(n):
    return str(n)


def joined(words, ends):
    words.append(ends["end"])
    return {"all": words, "end": ends["end"]}


def later(at):
    return at + timedelta(hours=1)


def leaves(n):
    sys.exit("enough")


def interrupts(n):
    raise KeyboardInterrupt


def ctrl_c(n):
    signal.raise_signal(signal.SIGINT)


def no_number(n):
    class Odd(Integral):
        def __index__(self):
            raise RuntimeError("no number")

        __int__ = __index__

    Odd.__abstractmethods__ = frozenset()
    return Odd()


def no_text(n):
    return pa.array([b"ok", b"\\xff"][1:] * len(n)).view(pa.string())


def far(n):
    return pa.array([2**62] * len(n), pa.timestamp("us", "UTC"))


def none(n):
    return None


def fewer(n):
    return n[1:]


def wider(n):
    return n.cast(pa.int64())


def in_chunks(n):
    return pa.chunked_array([n[:1], n[1:]])


def plain(n):
    return n.to_pylist()
"""
CODE = PythonCode((("functions/facts.py", TEXT),))


def udf(name: str, returns: str = "int", arrow: bool = False, **arguments: str) -> Udf:
    return Udf(name, PythonFunction(f"functions.facts:{name}", CODE), arguments or {"n": "int"}, returns, arrow)


def ints(*values: int | None) -> pa.Array:
    return pa.array(values, pa.int32())


@pytest.mark.parametrize(("name", "arrow"), [("half", False), ("halves", True)])
def test_values_and_arrays_come_to_the_same_and_the_same_rows_fail(name: str, arrow: bool) -> None:
    rng = random.Random(3)
    for rows in (0, 1, 2, 7, 50):
        for odd in (0.0, 0.1, 1.0):
            given = [None if rng.random() < 0.2 else 2 * rng.randrange(99) + (rng.random() < odd) for _ in range(rows)]
            wrong = [row for row, value in enumerate(given) if value is not None and value % 2]
            if not wrong:
                found = column_call(udf(name, arrow=arrow))([ints(*given)], rows)
                assert found == ints(*(None if value is None else value // 2 for value in given))
                continue
            with pytest.raises(CallFailedError) as failed:
                column_call(udf(name, arrow=arrow))([ints(*given)], rows)
            assert list(failed.value.failed) == wrong
            assert all("odd\n  functions/facts.py:" in str(each) for each in failed.value.failed.values())


def test_nested_values_and_times_are_python_s_and_a_call_s_own() -> None:
    words = pa.array([["a"], []], pa.list_(pa.string()))
    ends = pa.array([{"end": "z"}, {"end": None}], pa.struct([("end", pa.string())]))
    made = column_call(
        udf("joined", "struct<all:array<string>,end:string>", words="array<string>", ends="struct<end:string>")
    )
    assert made([words, ends], 2).to_pylist() == [{"all": ["a", "z"], "end": "z"}, {"all": [None], "end": None}]
    assert words.to_pylist() == [["a"], []]

    at = pa.array([0, 253402300800000000], pa.timestamp("us", "UTC"))
    assert column_call(udf("later", "timestamp", at="timestamp"))([at[:1]], 1).cast(pa.int64()).to_pylist() == [
        3_600_000_000
    ]
    with pytest.raises(CallFailedError, match="years 1 to 9999") as failed:
        column_call(udf("later", "timestamp", at="timestamp"))([at], 2)
    assert list(failed.value.failed) == [1]


@pytest.mark.parametrize(
    ("name", "arrow", "said"),
    [
        ("widened", False, "functions.facts:widened returned 1099511627776: 1099511627776 is no int"),
        ("as_text", False, "functions.facts:as_text returned '1': '1' is no int"),
        ("leaves", False, "functions.facts:leaves raised SystemExit: enough\n  functions/facts.py:44, in leaves"),
        (
            "interrupts",
            False,
            "functions.facts:interrupts raised KeyboardInterrupt\n  functions/facts.py:48, in interr",
        ),
        ("fewer", True, "functions.facts:fewer returned 0 values for 1 rows"),
        (
            "wider",
            True,
            "functions.facts:wider returned an array of int64; it is declared to return int, which",
        ),
        ("plain", True, "functions.facts:plain returned [1], which is no Arrow array"),
    ],
)
def test_result_that_is_not_as_declared_is_an_error_of_its_row(name: str, arrow: bool, said: str) -> None:
    with pytest.raises(CallFailedError) as failed:
        column_call(udf(name, arrow=arrow))([ints(1)], 1)
    assert str(failed.value).startswith(said)


@pytest.mark.parametrize(
    ("name", "arrow", "returns", "said"),
    [
        ("no_number", False, "int", "Odd object at .* cannot be read: RuntimeError: no number"),
        ("no_text", True, "string", "functions.facts:no_text returned row 0: b'.xff' is no string"),
        ("far", True, "timestamp", "functions.facts:far returned row 0: a time outside of the years 1 to 9999 is no"),
    ],
)
def test_result_that_no_column_has_is_an_error_of_its_row(name: str, arrow: bool, returns: str, said: str) -> None:
    with pytest.raises(CallFailedError, match=said) as failed:
        column_call(udf(name, returns, arrow=arrow))([ints(1, 2)], 2)
    assert list(failed.value.failed) == [0, 1]


def raising(number: int, frame: object) -> None:
    """A handler of signals as a SparkContext has it."""
    raise KeyboardInterrupt


@pytest.mark.parametrize("handler", [signal.default_int_handler, raising], ids=["of Python", "of Spark"])
def test_ctrl_c_is_no_error_of_the_function_that_it_meets(handler: Any) -> None:
    before = signal.signal(signal.SIGINT, handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            column_call(udf("ctrl_c"))([ints(1)], 1)
    finally:
        signal.signal(signal.SIGINT, before)


def test_array_in_chunks_is_taken_and_nothing_returned_is_null() -> None:
    assert column_call(udf("in_chunks", arrow=True))([ints(1, 2, 3)], 3) == ints(1, 2, 3)
    assert column_call(udf("none"))([ints(1, 2)], 2) == ints(None, None)


def rows_of(kinds: list[int], values: list[Any]) -> Rows:
    many = np.arange(len(kinds))
    columns = {"k": pa.array(map(str, many), pa.string()), "n": ints(*values)}
    return Rows((many,), np.array(kinds, np.int8), many * 10, many + 100, None, columns, ("k",), ("n",))


def run(rows: Rows, name: str, null_values: bool = False) -> Rows:
    edges = {"f": rows}
    node: Any = Call("f", f"{name}(n)", udf(name), ("n",), null_values)
    node.run(edges, None)
    return edges["f"]


@pytest.mark.parametrize("null_values", [False, True])
def test_function_is_called_for_values_and_for_rows_that_others_replace(null_values: bool) -> None:
    rows = run(rows_of([Kind.VALUE, Kind.TOMBSTONE, Kind.OLD, Kind.VALUE], [2, None, 4, 6]), "half", null_values)
    assert rows.columns["half(n)"].to_pylist() == [1, None, 2, 3]
    assert rows.value == ("n", "half(n)")


def test_record_without_a_value_reaches_a_function_only_where_its_step_looks_at_such_records() -> None:
    rows = rows_of([Kind.TOMBSTONE], [None])
    assert run(rows, "leaves").columns["leaves(n)"].to_pylist() == [None]
    with pytest.raises(EachFailedError) as failed:
        run(rows, "leaves", null_values=True)
    assert [order for order, _ in failed.value.rows] == [100]


def test_all_rows_that_fail_are_named_by_their_records_each_with_its_error() -> None:
    with pytest.raises(EachFailedError, match="3 is odd") as failed:
        run(rows_of([Kind.TOMBSTONE, Kind.VALUE, Kind.VALUE, Kind.VALUE], [None, 2, 3, 5]), "half")
    named = [(order, str(cause).split("\n")[0]) for order, cause in failed.value.rows]
    said = "functions.facts:half raised ValueError: {} is odd"
    assert named == [(102, said.format(3)), (103, said.format(5))]
