"""A date or a timestamp, plus or minus an interval that is written down."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from sqlglot import exp

from ...records.types import TIMESTAMP
from .. import calendar
from ..function import Function
from ..nodes import Constant, Node
from ..promotion import INT, is_null, unproven, unproven_of
from . import numbers
from .form import Forms, Reader, form
from .times import DATE, as_timestamp

_LENGTHS: Mapping[str, int] = {
    "microsecond": 1,
    "millisecond": 1000,
    "second": calendar.SECOND,
    "minute": 60 * calendar.SECOND,
    "hour": 3600 * calendar.SECOND,
    "day": calendar.DAY,
    "week": 7 * calendar.DAY,
}
"""Units, in microseconds."""

_MONTHS: Mapping[str, int] = {"month": 1, "year": 12}
_MOST_DIGITS = 6
"""So that no interval comes near to an overflow."""


def _sum(reader: Reader, tree: exp.Add) -> Node:
    if isinstance(tree.expression, exp.Interval):
        return _moved(reader, tree, tree.this, tree.expression, 1)
    if isinstance(tree.this, exp.Interval):
        return _moved(reader, tree, tree.expression, tree.this, 1)
    return numbers.FORMS[exp.Add].read(reader, tree)


def _difference(reader: Reader, tree: exp.Sub) -> Node:
    if isinstance(tree.expression, exp.Interval):
        return _moved(reader, tree, tree.this, tree.expression, -1)
    return numbers.FORMS[exp.Sub].read(reader, tree)


def _moved(reader: Reader, tree: exp.Expr, moment: exp.Expr, interval: exp.Interval, sign: int) -> Node:
    node, (unit, many) = reader.node(moment), _read(interval)
    if node.data_type not in (DATE, TIMESTAMP) or is_null(node):
        unproven_of(tree, (node,))
    if unit in _MONTHS:
        months = Constant(sign * many * _MONTHS[unit], INT)
        return Function(calendar.add_months, (node, months), node.data_type, fails=True)
    length = sign * many * _LENGTHS[unit]
    if node.data_type == DATE and not _LENGTHS[unit] % calendar.DAY:
        return Function(calendar.add_days, (node, Constant(length // calendar.DAY, INT)), DATE)
    return Function(partial(calendar.later, microseconds=length), (as_timestamp(node),), TIMESTAMP, fails=True)


def _read(interval: exp.Interval) -> tuple[str, int]:
    """The unit and the number of an interval such as `interval 3 hours`."""
    number, unit = interval.this, interval.args.get("unit")
    name = unit.name.lower().removesuffix("s") if isinstance(unit, exp.Var) else ""
    plain = isinstance(number, exp.Literal) and number.this.removeprefix("-").isdigit()
    if not plain or len(number.this) > _MOST_DIGITS or name not in (*_LENGTHS, *_MONTHS):
        unproven(f"`{interval.sql('spark')}` is only known to Spark SQL")
    return name, int(number.this)


FORMS: Forms = {
    exp.Add: form(_sum, "this", "expression"),
    exp.Sub: form(_difference, "this", "expression"),
}
