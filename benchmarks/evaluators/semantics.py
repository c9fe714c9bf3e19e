"""Whether candidates answer as Spark does: each case on each row, beside what Spark itself says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from .candidates import Engine
from .case import REPEATED, Case, Form

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Verdict(IntEnum):
    """From the best to the worst; a case has the worst of its rows."""

    same = 0
    refused = 1
    """It raises an error where Spark has a value, or has no such function: a compiler can know, or a run ends."""
    other = 2
    """It has another value."""
    silent = 3
    """It has a value where Spark raises an error."""


class Failed:
    """What an expression came to that raised an error."""

    def __repr__(self) -> str:
        return "error"


FAILED = Failed()


@dataclass(frozen=True)
class Judged:
    """A case: Spark's answer for each row, and for each evaluator its verdict and answers."""

    case: Case
    spark: list[Any]
    found: Mapping[str, tuple[Verdict, list[Any]]]


def judged(case: Case, spark: SparkSession, engines: Mapping[str, Engine]) -> Judged:
    rows = case.rows()
    expected = [_answer(partial(_of_spark, spark, case.expression), row) for row in rows]
    forms: dict[str, Callable[[pa.RecordBatch], list[Any]]] = {
        "kernels": partial(_of_kernels, case.plain),
        "composed": partial(_of_kernels, case.composed or case.plain),
    }
    for name, engine in engines.items():
        forms[name] = partial(engine.values, case.texts.get(name) or engine.text(case.expression))
    answers = {name: [_answer(form, row) for row in rows] for name, form in forms.items()}
    return Judged(case, expected, {name: (max(map(_verdict, expected, each)), each) for name, each in answers.items()})


def _verdict(expected: Any, answer: Any) -> Verdict:
    if _is_same(expected, answer):
        return Verdict.same
    if answer is FAILED:
        return Verdict.refused
    return Verdict.silent if expected is FAILED else Verdict.other


def _is_same(one: Any, other: Any) -> bool:
    """Equal, and of one kind: 3 is not 3.0. NaN is NaN, and 0.0 is not -0.0."""
    if isinstance(one, datetime) and isinstance(other, datetime):
        return _in_utc(one) == _in_utc(other)
    return type(one) is type(other) and (repr(one) == repr(other) if isinstance(one, float) else one == other)


def _in_utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _answer(form: Callable[[pa.RecordBatch], list[Any]], row: pa.RecordBatch) -> Any:
    """For a batch that repeats a row."""
    try:
        answers = form(row)
    except BaseException as error:  # a panic in Rust is no Exception
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        return FAILED
    same = len(answers) == REPEATED and all(_is_same(answers[0], each) for each in answers)
    return answers[0] if same else answers


def _of_kernels(form: Form | None, row: pa.RecordBatch) -> list[Any]:
    if form is None:
        raise NotImplementedError
    return list(form(*row.columns).to_pylist())


def _of_spark(spark: SparkSession, expression: str, row: pa.RecordBatch) -> list[Any]:
    frame = spark.createDataFrame(pa.Table.from_batches([row]))
    return list(frame.selectExpr(f"{expression} as r").toArrow()["r"].to_pylist())
