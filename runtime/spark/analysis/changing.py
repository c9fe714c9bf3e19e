"""Expressions that could give different results for the same record, even if their text hides that."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ...records.texts.casts import takes_the_clock
from .plans import items, kind, nodes, span, special_times_replaced, type_of
from .verdicts import Refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TIME = re.compile(r"""['"]\s*(?:epoch|now|today|tomorrow|yesterday)\b""", re.IGNORECASE)
_WRITE_OUT = "Write it with digits, or use `current_timestamp()`, the planned time of the epoch."
_PLAIN = frozenset({"string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double"})


def changing(session: SparkSession, plain: Any, expression: str) -> Refused | None:
    """Why a resolved expression could change from run to run.

    Two of Spark's optimizer rules replace times by those of its clock. Applying them shows whether they change
    anything; `plain` is the plan after the first of them, `plans.replaced`.
    """
    if not special_times_replaced(session, plain).fastEquals(plain):
        found = _TIME.search(expression)
        message = "Spark takes a text here from its own clock, once, when it makes the plan."
        return Refused(message, found.start() if found else None, "HW417", _WRITE_OUT)
    for node in nodes(plain):
        name = kind(node)
        if (name.startswith("Current") and name != "CurrentTimeZone") or name in ("Now", "LocalTimestamp"):
            return Refused(f"'{node.toString()}' is not deterministic.", None, "HW406", _WRITE_OUT)
        if name == "Cast" and type_of(node) == "timestamp" and _is_time_of_day(node.child()):
            start, end = span(node.child()) or (None, None)
            message = "Spark makes a timestamp of a time of day with the date of its own clock."
            return Refused(message, start, "HW417", _WRITE_OUT, end)
        if name == "FormatString":
            types = [type_of(child) for child in items(node.children())]
            odd = next((each for each in types if each not in _PLAIN and not each.startswith("decimal")), None)
            if odd is not None:
                message = f"'format_string' writes a value of type {odd} by its address in memory, or as Java does."
                return Refused(message, None, "HW406", "Cast it to a string: `hex(x)` of a binary, `to_json(x)`.")
    if not plain.deterministic():
        return Refused("The expression is not deterministic.", None, "HW406")
    return None


def _is_time_of_day(node: Any) -> bool:
    """Whether it is a constant text such as '12:30'."""
    from pyspark.errors import PySparkException

    if not node.foldable() or not type_of(node).startswith("string"):
        return False
    with suppress(PySparkException):
        text = node.eval(None)
        return text is not None and takes_the_clock(str(text.toString()))
    return False
