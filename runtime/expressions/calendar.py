"""Functions of dates and timestamps on Arrow arrays, with the semantics of Spark SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..records.arrays import Bools, Int64s, to_numpy
from ..records.types import TIMESTAMP
from .kernels import Value

# Spark SQL uses the proleptic Gregorian calendar, here always in UTC.
#
# A date is an int32, days since 1970-01-01. A timestamp is an int64, microseconds since then. Any number is valid, also
# far beyond the years of Python and Arrow. So NumPy computes everything in int64, with 0 in place of null. Nulls are
# put back at the end. All functions give null for null.

SECOND = 1_000_000
DAY = 86_400 * SECOND
"""Microseconds."""

_LEAST, _MOST = -(2**63), 2**63 - 1
_LEAST_DAY, _MOST_DAY = _LEAST // DAY, _MOST // DAY
"""The first and the last day, in days since 1970, that contain a valid timestamp."""


def numbers_of(data: pa.Array) -> Int64s:
    """Days of dates, or microseconds of timestamps, as int64; 0 where null."""
    return plain(data.view(pa.int32() if data.type == pa.date32() else pa.int64()))


def plain(data: pa.Array) -> Int64s:
    """Integers as int64; 0 where null."""
    numbers: Int64s = to_numpy(data.fill_null(0) if data.null_count else data).astype(np.int64, copy=False)
    return numbers


def known(*columns: pa.Array) -> Bools | None:
    """The mask of rows in which no column is null; None if no column has a null."""
    valid: Bools | None = None
    for each in columns:
        if each.null_count:
            here = to_numpy(each.is_valid())
            valid = here if valid is None else valid & here
    return valid


def array_of(numbers: npt.NDArray[Any], data_type: pa.DataType, valid: Bools | None) -> pa.Array:
    """Int64s as values of `data_type`, truncated to its bits; null where not `valid`. Int 2**31 becomes -2**31."""
    cut = numbers.astype(f"i{data_type.bit_width // 8}", copy=False)
    return pa.array(cut, mask=None if valid is None else ~valid).view(data_type)


def days_of(data: pa.Array) -> Int64s:
    """Days since 1970 of dates or timestamps, as int64; 0 where null."""
    numbers = numbers_of(data)
    return numbers if data.type == pa.date32() else numbers // DAY


def _months(days: Int64s) -> Int64s:
    """Months since January 1970: day -1 (1969-12-31) gives -1, 2024-02-29 gives 649."""
    return days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)


def _first_of(months: Int64s) -> Int64s:
    """The first day of months, in days since 1970: month -1 gives -31, month 649 gives 19754 (2024-02-01)."""
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def _year(days: Int64s) -> Int64s:
    return _months(days) // 12 + 1970


def _first_of_year(days: Int64s) -> Int64s:
    return _first_of(_months(days) // 12 * 12)


def _weekday(days: Int64s) -> Int64s:
    """The day of the week, 0 for Monday. 1970-01-01 was a Thursday."""
    return (days + 3) % 7


def _week(days: Int64s) -> Int64s:
    """The ISO week of the year. A week belongs to the year of its Thursday.

    Example:

        day       2024-12-30   2027-01-01
        weekday   0            4
        thursday  2025-01-02   2026-12-31
        week      1            53
    """
    thursday = days - _weekday(days) + 3
    return (thursday - _first_of_year(thursday)) // 7 + 1


PARTS: Mapping[str, Callable[[Int64s], Int64s]] = {
    "year": _year,
    "quarter": lambda days: _months(days) % 12 // 3 + 1,
    "month": lambda days: _months(days) % 12 + 1,
    "week": _week,
    "day": lambda days: days - _first_of(_months(days)) + 1,
    "weekday": _weekday,
    "dayofweek_iso": lambda days: _weekday(days) + 1,
    "dayofweek": lambda days: (days + 4) % 7 + 1,
    "dayofyear": lambda days: days - _first_of_year(days) + 1,
}
"""The parts of a date, by name: days since 1970 -> number."""

TIMES = {"hour": (3600 * SECOND, 24), "minute": (60 * SECOND, 60), "second": (SECOND, 60)}
"""The parts of a time of day: the length in microseconds, and the number after which counting restarts at 0."""


def part(data: pa.Array, name: str) -> Value:
    """A part of dates or timestamps, such as `year` or `hour`, as int32."""
    if name in TIMES:
        length, many = TIMES[name]
        return Value(array_of(numbers_of(data) // length % many, pa.int32(), known(data)))
    return Value(array_of(PARTS[name](days_of(data)), pa.int32(), known(data)))


def to_date(data: pa.Array) -> Value:
    """Timestamps as dates."""
    return Value(array_of(days_of(data), pa.date32(), known(data)))


def to_timestamp(data: pa.Array) -> Value:
    """Dates as timestamps, at midnight. A date out of the range of timestamps fails its row."""
    return _at(numbers_of(data), None, known(data))


def _at(days: Int64s, time: Int64s | None, valid: Bools | None) -> Value:
    """Timestamps of days and times of day in microseconds (`time`; None: midnight). Out of range fails the row.

    Timestamps begin on day -106751992 in the course of the day, and end on day 106751991:

        days    [0,     106751991, 106751992, -106751992, -106751993]
        failed  [False, False,     True,      True,       True]
    """
    none = (days < _LEAST_DAY) | (days > _MOST_DAY)
    rest: Any = 0 if time is None else time
    # The product may overflow on the first day. Adding the time then wraps back, if the timestamp itself is valid.
    none |= (days == _LEAST_DAY) & (rest < _LEAST - _LEAST_DAY * DAY)
    none |= (days == _MOST_DAY) & (rest > _MOST - _MOST_DAY * DAY)
    return failing(days * DAY + rest, none, TIMESTAMP, valid)


def failing(numbers: Int64s, fails: Bools, data_type: pa.DataType, valid: Bools | None) -> Value:
    """Int64s as `data_type`, null and failed where `fails`, null where not `valid`. A null row never fails."""
    if valid is not None:
        fails = fails & valid
    if not fails.any():
        return Value(array_of(numbers, data_type, valid))
    return Value(array_of(numbers, data_type, ~fails if valid is None else valid & ~fails), fails)


def add_days(data: pa.Array, days: pa.Array) -> Value:
    """`date_add`. An overflow wraps around silently, as in Spark: the last day plus 1 is the first day."""
    return Value(array_of(days_of(data) + plain(days), pa.date32(), known(data, days)))


def subtract_days(data: pa.Array, days: pa.Array) -> Value:
    """`date_sub`. An overflow wraps around silently, see `add_days`."""
    return Value(array_of(days_of(data) - plain(days), pa.date32(), known(data, days)))


def days_between(end: pa.Array, start: pa.Array) -> Value:
    """`datediff`: days from start to end, as int32."""
    return Value(array_of(days_of(end) - days_of(start), pa.int32(), known(end, start)))


def add_months(data: pa.Array, months: pa.Array) -> Value:
    """Dates or timestamps plus months. A day that the month lacks becomes its last day. Out of range fails the row.

    Example:

        data    [2024-01-31, 2024-02-29, null]
        months  [1, 12, 1]
        moved   [649, 661, ...]      months since 1970 of the results
        day     [28, 27, ...]        day of the month from 0, at most the last of the new month
        result  [2024-02-29, 2025-02-28, null]
    """
    days, valid = days_of(data), known(data, months)
    moved = _months(days) + plain(months)
    day = np.minimum(days - _first_of(_months(days)), _first_of(moved + 1) - _first_of(moved) - 1)
    found = _first_of(moved) + day
    if data.type == TIMESTAMP:
        return _at(found, numbers_of(data) % DAY, valid)
    return failing(found, _no_date(found), pa.date32(), valid)


def _no_date(days: Int64s) -> Bools:
    return (days < -(2**31)) | (days > 2**31 - 1)


def last_day(data: pa.Array) -> Value:
    """`last_day`: the last day of the month, as a date."""
    return Value(array_of(_first_of(_months(days_of(data)) + 1) - 1, pa.date32(), known(data)))


def _monday(days: Int64s) -> Int64s:
    """The Monday on or before a day. Near the first int32 day the result overflows as in Spark, hence the int32s."""
    week_before = (days - 7).astype(np.int32)
    since = np.fmod((3 - week_before.astype(np.int64)).astype(np.int32), 7)
    monday: Int64s = week_before.astype(np.int64) + 1 + (since + 7) % 7
    return monday


_STARTS: Mapping[str, Callable[[Int64s], Int64s]] = {
    "week": _monday,
    "month": lambda days: _first_of(_months(days)),
    "quarter": lambda days: _first_of(_months(days) // 3 * 3),
    "year": _first_of_year,
}
"""The first day of the week, month, quarter or year that contains a day."""

_LENGTHS = {"millisecond": 1000, "second": SECOND, "minute": 60 * SECOND, "hour": 3600 * SECOND, "day": DAY}


def start_of_date(data: pa.Array, unit: str) -> Value:
    """`trunc`: the first day of the week, month, quarter or year of dates. A quarter out of range fails the row."""
    days, valid = _STARTS[unit](days_of(data)), known(data)
    if unit == "quarter":
        return failing(days, _no_date(days), pa.date32(), valid)
    return Value(array_of(days, pa.date32(), valid))


def start_of(data: pa.Array, unit: str) -> Value:
    """`date_trunc`: timestamps truncated to a unit. A result before the first timestamp fails the row."""
    valid, times = known(data), numbers_of(data)
    if unit in _STARTS:
        return _at(_STARTS[unit](times // DAY), None, valid)
    rest = times % _LENGTHS[unit]
    return failing(times - rest, times < _LEAST + rest, TIMESTAMP, valid)


def later(data: pa.Array, microseconds: int) -> Value:
    """Timestamps plus microseconds. An overflow fails the row."""
    times = numbers_of(data)
    found = times + microseconds
    return failing(found, (found < times) if microseconds >= 0 else (found > times), TIMESTAMP, known(data))


def since_epoch(data: pa.Array, microseconds: int) -> Value:
    """Timestamps in units of `microseconds` since 1970, as int64, rounded down: -0.5 s gives -1."""
    return Value(array_of(numbers_of(data) // microseconds, pa.int64(), known(data)))


def seconds_of(data: pa.Array) -> Value:
    """`unix_timestamp`: seconds since 1970 as int64, rounded towards 0: -0.5 s gives 0."""
    times = numbers_of(data)
    down = times // SECOND
    return Value(array_of(down + ((times < 0) & (times % SECOND != 0)), pa.int64(), known(data)))


def at_second(data: pa.Array) -> Value:
    """Timestamps of seconds since 1970, as in `from_unixtime`. An overflow wraps around silently."""
    return Value(array_of(plain(data) * SECOND, TIMESTAMP, known(data)))


def from_epoch(data: pa.Array, microseconds: int) -> Value:
    """Timestamps of numbers of units since 1970, each of `microseconds`. An overflow fails the row."""
    numbers = plain(data)
    fails = (numbers > _MOST // microseconds) | (numbers < -(-_LEAST // microseconds))
    return failing(numbers * microseconds, fails, TIMESTAMP, known(data))


def of_seconds(data: pa.Array) -> Value:
    """Timestamps of seconds since 1970, as in a cast. Out of range gives the first or last timestamp."""
    seconds = plain(data)
    times = seconds * SECOND
    times[seconds > _MOST // SECOND] = _MOST
    times[seconds <= _LEAST // SECOND] = _LEAST
    return Value(array_of(times, TIMESTAMP, known(data)))


def days_as_dates(data: pa.Array) -> Value:
    """Integers, days since 1970, as dates."""
    return Value(array_of(plain(data), pa.date32(), known(data)))


def dates_as_days(data: pa.Array) -> Value:
    """Dates as days since 1970, int32."""
    return Value(array_of(numbers_of(data), pa.int32(), known(data)))


def in_seconds(data: pa.Array) -> Value:
    """Timestamps as seconds since 1970, double."""
    return Value(pa.array(numbers_of(data) / float(SECOND), mask=None if (valid := known(data)) is None else ~valid))


def date_of(year: pa.Array, month: pa.Array, day: pa.Array) -> Value:
    """`make_date`. A date that does not exist fails its row.

    Example:

        year    [2024, 2023, 2024]
        month   [2, 2, 13]
        day     [29, 29, 1]
        result  [2024-02-29, null, null]
        failed  [False, True, True]
    """
    years, months, days = plain(year), plain(month), plain(day)
    first = (years - 1970) * 12 + np.clip(months, 1, 12) - 1
    found = _first_of(first) + days - 1
    fails = (months < 1) | (months > 12) | (days < 1) | (found >= _first_of(first + 1)) | _no_date(found)
    return failing(found, fails, pa.date32(), known(year, month, day))


# Dates and timestamps as strings, in Java's format: years above 9999 and below 0 have a sign.

Pattern = Sequence[str]
"""The pieces of a format: fields of Java's DateTimeFormatter (`yyyy`, `MM`), and literal text."""

DATE_PATTERN = ("yyyy", "-", "MM", "-", "dd")
TIME_PATTERN = (*DATE_PATTERN, " ", "HH", ":", "mm", ":", "ss", ".", "SSSSSS")


def formatted(data: pa.Array, pattern: Pattern) -> Value:
    """Dates or timestamps as strings in a pattern.

    Years from 0 to 9999 give strings of one length, which NumPy builds at once. The others are written one by one:
    +10000-01-01, -0001-12-31.
    """
    numbers, valid = numbers_of(data), known(data)
    days, time = (numbers, np.zeros_like(numbers)) if data.type == pa.date32() else np.divmod(numbers, DAY)
    years = PARTS["year"](days)
    strange = np.flatnonzero((years < 0) | (years > 9999))
    texts = _texts([_piece(each, days, time) for each in pattern], len(data))
    if len(strange):
        taken = (days[strange], time[strange])
        whole = texts.to_pylist()
        for n, text in zip(strange, _with_signs(pattern, years[strange], *taken), strict=True):
            whole[n] = text
        texts = pa.array(whole, pa.string())
    return Value(texts if valid is None else pc.if_else(pa.array(valid), texts, pa.scalar(None, pa.string())))


def shown(data: pa.Array) -> Value:
    """Timestamps as strings, as in a cast: without trailing zeros of the fraction, 2024-02-29 13:45:06.12."""
    texts = formatted(data, TIME_PATTERN).data
    return Value(pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), "."))


def _piece(piece: str, days: Int64s, time: Int64s) -> npt.NDArray[np.uint8] | str:
    """The ASCII digits of a field, as uint8 of shape (rows, width); or a literal text as it is.

    `MM` of 2024-02-29 and 0987-11-05:

        number  [2, 11]
        tens    [10, 1]
        digits  [[0, 2], [1, 1]]          number[:, None] // tens % 10
        result  [[48, 50], [49, 49]]      plus ord("0")
    """
    match piece:
        case "yyyy":
            number = PARTS["year"](days) % 10_000
        case "MM":
            number = PARTS["month"](days)
        case "dd":
            number = PARTS["day"](days)
        case "HH":
            number = time // (3600 * SECOND)
        case "mm":
            number = time // (60 * SECOND) % 60
        case "ss":
            number = time // SECOND % 60
        case "SSS" | "SSSSSS":
            number = time % SECOND // 10 ** (6 - len(piece))
        case _:
            return piece
    tens = 10 ** np.arange(len(piece) - 1, -1, -1)
    return (number[:, None] // tens % 10 + ord("0")).astype(np.uint8)


def _texts(pieces: Sequence[npt.NDArray[np.uint8] | str], rows: int) -> pa.Array:
    """Strings of one length, from pieces: an Arrow string array built from offsets and bytes.

    The pieces of `MM`, "/" and `dd` for 2024-02-29 and 0987-11-05:

        wide     [[48, 50], [49, 49]], [[47], [47]], [[50, 57], [48, 53]]
        letters  [[48, 50, 47, 50, 57], [49, 49, 47, 48, 53]]
        offsets  [0, 5, 10]
        result   ["02/29", "11/05"]
    """
    wide = [
        np.broadcast_to(np.frombuffer(each.encode(), np.uint8), (rows, len(each))) if isinstance(each, str) else each
        for each in pieces
    ]
    letters = np.concatenate(wide, axis=1)
    offsets = np.arange(rows + 1, dtype=np.int32) * letters.shape[1]
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(letters.tobytes()))


def _with_signs(pattern: Pattern, years: Int64s, days: Int64s, time: Int64s) -> list[str]:
    """Strings for years that do not have exactly four digits, with a sign: +10000, -0001."""
    signed = [f"{'-' if year < 0 else '+'}{abs(year):04}" for year in years.tolist()]
    columns = [
        signed if each == "yyyy" else _texts([_piece(each, days, time)], len(years)).to_pylist() for each in pattern
    ]
    return ["".join(each) for each in zip(*columns, strict=True)]
