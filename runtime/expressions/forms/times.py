"""The forms of functions and casts of dates and timestamps, and of intervals."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from functools import partial

import pyarrow as pa
from sqlglot import exp

from ...records.types import TIMESTAMP
from .. import calendar
from ..kernels import Value
from ..nodes import Constant, Function, Node
from ..promotion import BIGINT, DOUBLE, INT, STRING, WHOLE, is_null, unproven, unproven_of
from . import numbers
from .form import Forms, Reader, arguments_of, form, named

# Literals, functions and casts of dates and timestamps.

DATE = pa.date32()
_DAYS = (DATE, TIMESTAMP)
_UP_TO_INT = (pa.int8(), pa.int16(), INT)

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


def _arguments(reader: Reader, tree: exp.Anonymous, *types: tuple[pa.DataType, ...]) -> tuple[Node, ...]:
    """The arguments of a function. `types`: the allowed types of each. Raises UnprovenError."""
    arguments = arguments_of(reader, tree, len(types))
    fit = [each.data_type in those and not is_null(each) for each, those in zip(arguments, types, strict=True)]
    if not all(fit):
        unproven_of(tree, arguments)
    return arguments


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


def _function(
    function: Callable[..., Value],
    data_type: pa.DataType,
    *types: tuple[pa.DataType, ...],
    fails: bool = False,
) -> Callable[[Reader, exp.Anonymous], Node]:
    """The `read` of a form: a call of `function` with arguments of these types."""

    def read(reader: Reader, tree: exp.Anonymous) -> Node:
        return Function(function, _arguments(reader, tree, *types), data_type, fails)

    return read


def _part(reader: Reader, tree: exp.Anonymous) -> Node:
    name = _PARTS[tree.name.lower()]
    times = (TIMESTAMP,) if name in calendar.TIMES else (DATE, TIMESTAMP)
    return Function(partial(calendar.part, name=name), _arguments(reader, tree, times), INT)


def _extract(reader: Reader, tree: exp.Extract) -> Node:
    return _field(tree, tree.this.name.lower(), reader.node(tree.expression))


def _date_part(reader: Reader, tree: exp.Anonymous) -> Node:
    if len(tree.expressions) != 2:
        unproven(f"this form of `{tree.name.lower()}` is only known to Spark SQL")
    return _field(tree, _text(tree.expressions[0]), reader.node(tree.expressions[1]))


def _field(tree: exp.Expr, field: str, argument: Node) -> Node:
    name = _unit(_FIELDS, field)
    if argument.data_type not in ((TIMESTAMP,) if name in calendar.TIMES else (DATE, TIMESTAMP)) or is_null(argument):
        unproven_of(tree, (argument,))
    return Function(partial(calendar.part, name=name), (argument,), INT)


def _trunc(reader: Reader, tree: exp.Anonymous) -> Node:
    if len(tree.expressions) != 2:
        unproven("this form of `trunc` is only known to Spark SQL")
    unit = _unit(_DATE_UNITS, _text(tree.expressions[1]))
    argument = _as_date(tree, reader.node(tree.expressions[0]))
    return Function(partial(calendar.start_of_date, unit=unit), (argument,), DATE, fails=unit == "quarter")


def _date_trunc(reader: Reader, tree: exp.Anonymous) -> Node:
    if len(tree.expressions) != 2:
        unproven("this form of `date_trunc` is only known to Spark SQL")
    unit = _unit(_UNITS, _text(tree.expressions[0]))
    argument = reader.node(tree.expressions[1])
    if argument.data_type not in (DATE, TIMESTAMP):
        unproven_of(tree, (argument,))
    return Function(partial(calendar.start_of, unit=unit), (as_timestamp(argument),), TIMESTAMP, fails=True)


def _as_date(tree: exp.Expr, node: Node) -> Node:
    if node.data_type not in (DATE, TIMESTAMP):
        unproven_of(tree, (node,))
    return node if node.data_type == DATE else Function(calendar.to_date, (node,), DATE)


def as_timestamp(node: Node) -> Node:
    """A date or a timestamp, cast to timestamp."""
    return node if node.data_type == TIMESTAMP else Function(calendar.to_timestamp, (node,), TIMESTAMP, fails=True)


def _from_epoch(microseconds: int, reader: Reader, tree: exp.Anonymous) -> Node:
    (argument,) = _arguments(reader, tree, WHOLE)
    fails = microseconds > 1 and argument.data_type == BIGINT
    return Function(partial(calendar.from_epoch, microseconds=microseconds), (argument,), TIMESTAMP, fails)


def _add_months(reader: Reader, tree: exp.Anonymous) -> Node:
    start, months = _arguments(reader, tree, (DATE, TIMESTAMP), _UP_TO_INT)
    return Function(calendar.add_months, (_as_date(tree, start), months), DATE, fails=True)


def _date_format(reader: Reader, tree: exp.Anonymous) -> Node:
    (argument, _) = arguments_of(reader, tree, 2)
    if argument.data_type not in _DAYS or is_null(argument):
        unproven_of(tree, (argument,))
    return _formatted(as_timestamp(argument), _pattern(tree.expressions[1]))


def _from_unixtime(reader: Reader, tree: exp.Anonymous) -> Node:
    pattern = _pattern(tree.expressions[1]) if len(tree.expressions) == 2 else calendar.TIME_PATTERN[:-2]
    argument = arguments_of(reader, tree, max(len(tree.expressions), 1))[0]
    if argument.data_type not in WHOLE or is_null(argument) or len(tree.expressions) > 2:
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
    (argument,) = _arguments(reader, tree, _DAYS)
    return _as_date(tree, argument)


def _last_day(reader: Reader, tree: exp.Anonymous) -> Node:
    (argument,) = _arguments(reader, tree, (DATE, TIMESTAMP))
    return Function(calendar.last_day, (_as_date(tree, argument),), DATE)


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
    **dict.fromkeys(_PARTS, named(_part)),
    exp.Extract: form(_extract, "this", "expression"),
    **dict.fromkeys(("date_part", "datepart"), named(_date_part)),
    "trunc": named(_trunc),
    "date_trunc": named(_date_trunc),
    **dict.fromkeys(("date_add", "dateadd"), named(_function(calendar.add_days, DATE, (DATE,), _UP_TO_INT))),
    "date_sub": named(_function(calendar.subtract_days, DATE, (DATE,), _UP_TO_INT)),
    **dict.fromkeys(("datediff", "date_diff"), named(_function(calendar.days_between, INT, _DAYS, _DAYS))),
    "add_months": named(_add_months),
    "last_day": named(_last_day),
    "make_date": named(_function(calendar.date_of, DATE, _UP_TO_INT, _UP_TO_INT, _UP_TO_INT, fails=True)),
    "unix_date": named(_function(calendar.dates_as_days, INT, (DATE,))),
    "date_from_unix_date": named(_function(calendar.days_as_dates, DATE, _UP_TO_INT)),
    **{
        name: named(_function(partial(calendar.since_epoch, microseconds=length), BIGINT, (TIMESTAMP,)))
        for name, length in (("unix_seconds", 1_000_000), ("unix_millis", 1000), ("unix_micros", 1))
    },
    **{
        name: named(partial(_from_epoch, length))
        for name, length in (("timestamp_seconds", 1_000_000), ("timestamp_millis", 1000), ("timestamp_micros", 1))
    },
    "to_date": named(_to_date),
    "date_format": named(_date_format),
    "from_unixtime": named(_from_unixtime),
    **dict.fromkeys(
        ("unix_timestamp", "to_unix_timestamp"), named(_function(calendar.seconds_of, BIGINT, (TIMESTAMP,)))
    ),
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
    return numbers.NUMBER_FORMS[exp.Add].read(reader, tree)


def _difference(reader: Reader, tree: exp.Sub) -> Node:
    if isinstance(tree.expression, exp.Interval):
        return _moved(reader, tree, tree.this, tree.expression, -1)
    return numbers.NUMBER_FORMS[exp.Sub].read(reader, tree)


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
    exp.Add: form(_sum, "this", "expression"),
    exp.Sub: form(_difference, "this", "expression"),
}
