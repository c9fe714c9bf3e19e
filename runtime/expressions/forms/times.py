"""The forms of functions and casts of dates and timestamps, and of intervals."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from functools import partial

import pyarrow as pa
from sqlglot import exp

from ...records.types import TIMESTAMP
from .. import calendar
from ..nodes import Constant, Function, Node
from ..promotion import BIGINT, DOUBLE, INT, STRING, WHOLE, is_null, unproven, unproven_of
from . import numbers
from .form import Forms, Reader, arguments_of, call, typed

# Literals, functions and casts of dates and timestamps.

DATE = pa.date32()
_DAYS = (DATE, TIMESTAMP)

_PARTS: Mapping[str, str] = {
    **{
        name: name for name in ("year", "quarter", "month", "day", "dayofweek", "weekday", "dayofyear", *calendar.TIMES)
    },
    "dayofmonth": "day",
    "weekofyear": "week",
}
"""Functions of a date or a timestamp: name of the function -> name of the part."""

_FIELDS: Mapping[str, str] = {
    **dict.fromkeys(("year", "y", "years", "yr", "yrs"), "year"),
    **dict.fromkeys(("quarter", "qtr"), "quarter"),
    **dict.fromkeys(("month", "mon", "mons", "months"), "month"),
    **dict.fromkeys(("week", "w", "weeks"), "week"),
    **dict.fromkeys(("day", "d", "days"), "day"),
    **dict.fromkeys(("dayofweek", "dow"), "dayofweek"),
    **dict.fromkeys(("dayofweek_iso", "dow_iso"), "dayofweek_iso"),
    "doy": "dayofyear",
    **dict.fromkeys(("hour", "h", "hours", "hr", "hrs"), "hour"),
    **dict.fromkeys(("minute", "m", "min", "mins", "minutes"), "minute"),
}
"""The names of fields in `extract` -> name of the part. Seconds are missing, because they have a fraction there."""

_DATE_UNITS: Mapping[str, str] = {
    "week": "week",
    **dict.fromkeys(("month", "mon", "mm"), "month"),
    "quarter": "quarter",
    **dict.fromkeys(("year", "yyyy", "yy"), "year"),
}
_UNITS: Mapping[str, str] = {
    **_DATE_UNITS,
    **dict.fromkeys(("day", "dd"), "day"),
    **{name: name for name in ("hour", "minute", "second", "millisecond")},
}
"""The names of units in `trunc` (`_DATE_UNITS`) and `date_trunc` (`_UNITS`) -> name of the unit."""

_DATE_TEXT = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIME_TEXT = re.compile(r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}:\d{2}(\.\d{1,6})?Z?")

_RUN = re.compile(r"([A-Za-z])\1*|.", re.DOTALL)
_PIECES = frozenset(("yyyy", "MM", "dd", "HH", "mm", "ss", "SSS", "SSSSSS", *"-/:., _"))
"""`_RUN`: one piece of a Java format. `_PIECES`: the supported pieces."""


def _text(tree: exp.Expr) -> str:
    """A string literal in lower case. Raises UnprovenError for anything else."""
    if not _is_text(tree):
        unproven(f"`{tree.sql('spark')}` is no text that is written down")
    text: str = tree.this
    return text.lower()


def _is_text(tree: exp.Expr) -> bool:
    return isinstance(tree, exp.Literal) and bool(tree.is_string)


def _unit(units: Mapping[str, str], name: str) -> str:
    if name not in units:
        unproven(f"the unit '{name}' is only known to Spark SQL")
    return units[name]


def _extract(reader: Reader, tree: exp.Extract) -> Node:
    return _field(tree, tree.this.name.lower(), reader.node(tree.expression))


def _date_part(reader: Reader, tree: exp.Anonymous) -> Node:
    return _field(tree, _text(tree.expressions[0]), reader.node(tree.expressions[1]))


def _field(tree: exp.Expr, field: str, argument: Node) -> Node:
    name = _unit(_FIELDS, field)
    if argument.data_type not in ((TIMESTAMP,) if name in calendar.TIMES else (DATE, TIMESTAMP)) or is_null(argument):
        unproven_of(tree, (argument,))
    return Function(partial(calendar.part, name=name), (argument,), INT)


def _trunc(reader: Reader, tree: exp.Anonymous) -> Node:
    (argument, _), data_type = typed(reader, tree)
    unit = _unit(_DATE_UNITS, _text(tree.expressions[1]))
    found = partial(calendar.start_of_date, unit=unit)
    return Function(found, (_as_date(tree, argument),), data_type, fails=unit == "quarter")


def _date_trunc(reader: Reader, tree: exp.Anonymous) -> Node:
    (_, argument), data_type = typed(reader, tree)
    unit = _unit(_UNITS, _text(tree.expressions[0]))
    return Function(partial(calendar.start_of, unit=unit), (as_timestamp(argument),), data_type, fails=True)


def _as_date(tree: exp.Expr, node: Node) -> Node:
    if node.data_type not in (DATE, TIMESTAMP):
        unproven_of(tree, (node,))
    return node if node.data_type == DATE else Function(calendar.to_date, (node,), DATE)


def as_timestamp(node: Node) -> Node:
    """A date or a timestamp, cast to timestamp."""
    return node if node.data_type == TIMESTAMP else Function(calendar.to_timestamp, (node,), TIMESTAMP, fails=True)


def _from_epoch(microseconds: int, reader: Reader, tree: exp.Anonymous) -> Node:
    arguments, data_type = typed(reader, tree)
    fails = microseconds > 1 and arguments[0].data_type == BIGINT
    return Function(partial(calendar.from_epoch, microseconds=microseconds), arguments, data_type, fails)


def _add_months(reader: Reader, tree: exp.Anonymous) -> Node:
    (start, months), data_type = typed(reader, tree)
    return Function(calendar.add_months, (_as_date(tree, start), months), data_type, fails=True)


def _date_format(reader: Reader, tree: exp.Anonymous) -> Node:
    (argument, _) = arguments_of(reader, tree)
    if argument.data_type not in _DAYS or is_null(argument):
        unproven_of(tree, (argument,))
    return _formatted(as_timestamp(argument), _pattern(tree.expressions[1]))


def _from_unixtime(reader: Reader, tree: exp.Anonymous) -> Node:
    pattern = _pattern(tree.expressions[1]) if len(tree.expressions) == 2 else calendar.TIME_PATTERN[:-2]
    argument = arguments_of(reader, tree)[0]
    if argument.data_type not in WHOLE or is_null(argument):
        unproven_of(tree, (argument,))
    return _formatted(Function(calendar.at_second, (argument,), TIMESTAMP), pattern)


def _formatted(argument: Node, pattern: calendar.Pattern) -> Node:
    return Function(partial(calendar.formatted, pattern=pattern), (argument,), STRING)


def _pattern(tree: exp.Expr) -> calendar.Pattern:
    """The pieces of a format, a literal. Raises UnprovenError for a piece that is not supported."""
    pieces = tuple(each[0] for each in _RUN.finditer(tree.this)) if _is_text(tree) else ()
    if not pieces or not _PIECES.issuperset(pieces):
        unproven(f"{tree.sql('spark')} as a pattern of times is only proven in Spark SQL")
    return pieces


def _to_date(reader: Reader, tree: exp.Anonymous) -> Node:
    (argument,), _ = typed(reader, tree)
    return _as_date(tree, argument)


def _last_day(reader: Reader, tree: exp.Anonymous) -> Node:
    (argument,), data_type = typed(reader, tree)
    return Function(calendar.last_day, (_as_date(tree, argument),), data_type)


def cast_of(argument: Node, wanted: pa.DataType) -> Node | None:
    """A cast from or to dates and timestamps; None if it is not supported.

    A cast from date to timestamp is not: if the result is compared with a literal, Spark's optimizer removes the cast,
    and with it the error for dates out of range.
    """
    given = argument.data_type
    if isinstance(argument, Constant) and given == STRING:
        return _literal(argument.value, wanted)
    if wanted == TIMESTAMP and given in WHOLE:
        return Function(calendar.of_seconds, (argument,), TIMESTAMP)
    known: Mapping[tuple[pa.DataType, pa.DataType], Node] = {
        (TIMESTAMP, DATE): Function(calendar.to_date, (argument,), DATE),
        (DATE, STRING): _formatted(argument, calendar.DATE_PATTERN),
        (TIMESTAMP, STRING): Function(calendar.shown, (argument,), STRING),
        (TIMESTAMP, BIGINT): Function(partial(calendar.since_epoch, microseconds=calendar.SECOND), (argument,), BIGINT),
        (TIMESTAMP, DOUBLE): Function(calendar.in_seconds, (argument,), DOUBLE),
    }
    return known.get((given, wanted))


def _literal(text: str, wanted: pa.DataType) -> Constant | None:
    """The literal `date '…'` or `timestamp '…'`; None unless the year has four digits and the zone is UTC or absent."""
    try:
        if wanted == DATE and _DATE_TEXT.fullmatch(text):
            return Constant(date.fromisoformat(text), DATE)
        if wanted == TIMESTAMP and _DATE_TEXT.fullmatch(text):
            text += " 00:00:00"
        if wanted == TIMESTAMP and _TIME_TEXT.fullmatch(text):
            return Constant(datetime.fromisoformat(text).replace(tzinfo=UTC), TIMESTAMP)
    except ValueError:
        pass
    return None


TIME_FORMS: Forms = {
    **{name: call(partial(calendar.part, name=part)) for name, part in _PARTS.items()},
    exp.Extract: _extract,
    **dict.fromkeys(("date_part", "datepart"), _date_part),
    "trunc": _trunc,
    "date_trunc": _date_trunc,
    **dict.fromkeys(("date_add", "dateadd"), call(calendar.add_days)),
    "date_sub": call(calendar.subtract_days),
    **dict.fromkeys(("datediff", "date_diff"), call(calendar.days_between)),
    "add_months": _add_months,
    "last_day": _last_day,
    "make_date": call(calendar.date_of, fails=True),
    "unix_date": call(calendar.dates_as_days),
    "date_from_unix_date": call(calendar.days_as_dates),
    **{
        name: call(partial(calendar.since_epoch, microseconds=length))
        for name, length in (("unix_seconds", 1_000_000), ("unix_millis", 1000), ("unix_micros", 1))
    },
    **{
        name: partial(_from_epoch, length)
        for name, length in (("timestamp_seconds", 1_000_000), ("timestamp_millis", 1000), ("timestamp_micros", 1))
    },
    "to_date": _to_date,
    "date_format": _date_format,
    "from_unixtime": _from_unixtime,
    **dict.fromkeys(("unix_timestamp", "to_unix_timestamp"), call(calendar.seconds_of)),
}


# A date or a timestamp, plus or minus an interval literal.

_LENGTHS: Mapping[str, int] = {
    "microsecond": 1,
    "millisecond": 1000,
    "second": calendar.SECOND,
    "minute": 60 * calendar.SECOND,
    "hour": 3600 * calendar.SECOND,
    "day": calendar.DAY,
    "week": 7 * calendar.DAY,
}
"""The lengths of units in microseconds."""

_MONTHS: Mapping[str, int] = {"month": 1, "year": 12}
_MOST_DIGITS = 6
"""The maximum number of digits in an interval. With more, the interval itself could overflow."""


def _sum(reader: Reader, tree: exp.Add) -> Node:
    if isinstance(tree.expression, exp.Interval):
        return _moved(reader, tree, tree.this, tree.expression, 1)
    if isinstance(tree.this, exp.Interval):
        return _moved(reader, tree, tree.expression, tree.this, 1)
    return numbers.NUMBER_FORMS[exp.Add](reader, tree)


def _difference(reader: Reader, tree: exp.Sub) -> Node:
    if isinstance(tree.expression, exp.Interval):
        return _moved(reader, tree, tree.this, tree.expression, -1)
    return numbers.NUMBER_FORMS[exp.Sub](reader, tree)


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
    """The unit and the number of an interval: ("hour", 3) of `interval 3 hours`. Raises UnprovenError."""
    number, unit = interval.this, interval.args.get("unit")
    name = unit.name.lower().removesuffix("s") if isinstance(unit, exp.Var) else ""
    plain = isinstance(number, exp.Literal) and number.this.removeprefix("-").isdigit()
    if not plain or len(number.this) > _MOST_DIGITS or name not in (*_LENGTHS, *_MONTHS):
        unproven(f"`{interval.sql('spark')}` is only known to Spark SQL")
    return name, int(number.this)


INTERVAL_FORMS: Forms = {
    exp.Add: _sum,
    exp.Sub: _difference,
}
