"""Dates and times as Spark has them."""

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

# Dates and times as Spark SQL counts them: in the proleptic Gregorian calendar, in UTC.
#
# A date is int32 days since 1970-01-01, and a timestamp int64 microseconds; any such number may come, far beyond the
# years that Python or Arrow have. So all is counted by numpy in int64. Functions of days give null for null.

SECOND = 1_000_000
DAY = 86_400 * SECOND
"""In microseconds."""

_LEAST, _MOST = -(2**63), 2**63 - 1
_LEAST_DAY, _MOST_DAY = _LEAST // DAY, _MOST // DAY
"""The first and the last day of which a part has a timestamp."""


def numbers_of(data: pa.Array) -> Int64s:
    """The days of dates, or the microseconds of timestamps; 0 where null."""
    return plain(data.view(pa.int32() if data.type == pa.date32() else pa.int64()))


def plain(data: pa.Array) -> Int64s:
    """Whole numbers, 0 where null."""
    numbers: Int64s = to_numpy(data.fill_null(0) if data.null_count else data).astype(np.int64, copy=False)
    return numbers


def known(*columns: pa.Array) -> Bools | None:
    """Where no column is null; None: everywhere."""
    valid: Bools | None = None
    for each in columns:
        if each.null_count:
            here = to_numpy(each.is_valid())
            valid = here if valid is None else valid & here
    return valid


def array_of(numbers: npt.NDArray[Any], data_type: pa.DataType, valid: Bools | None) -> pa.Array:
    """Numbers as values of a type, which lose the bits that have no place in it; null where not valid."""
    cut = numbers.astype(f"i{data_type.bit_width // 8}", copy=False)
    return pa.array(cut, mask=None if valid is None else ~valid).view(data_type)


def days_of(data: pa.Array) -> Int64s:
    """The days of dates or timestamps, 0 where null."""
    numbers = numbers_of(data)
    return numbers if data.type == pa.date32() else numbers // DAY


def _months(days: Int64s) -> Int64s:
    """Months since January 1970."""
    return days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)


def _first_of(months: Int64s) -> Int64s:
    """The first day of months."""
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def _year(days: Int64s) -> Int64s:
    return _months(days) // 12 + 1970


def _first_of_year(days: Int64s) -> Int64s:
    return _first_of(_months(days) // 12 * 12)


def _weekday(days: Int64s) -> Int64s:
    """0 on Mondays. The first day of all was a Thursday."""
    return (days + 3) % 7


def _week(days: Int64s) -> Int64s:
    """The week in which its Thursday is, by its place in the Thursday's year."""
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
"""What a day is called: days -> number."""

TIMES = {"hour": (3600 * SECOND, 24), "minute": (60 * SECOND, 60), "second": (SECOND, 60)}
"""Parts of a day: microseconds, and how many there are before they begin again."""


def part(data: pa.Array, name: str) -> Value:
    """A part of dates or timestamps, as int."""
    if name in TIMES:
        length, many = TIMES[name]
        return Value(array_of(numbers_of(data) // length % many, pa.int32(), known(data)))
    return Value(array_of(PARTS[name](days_of(data)), pa.int32(), known(data)))


def to_date(data: pa.Array) -> Value:
    """The day of timestamps."""
    return Value(array_of(days_of(data), pa.date32(), known(data)))


def to_timestamp(data: pa.Array) -> Value:
    """The start of dates. Fails for those far away."""
    return _at(numbers_of(data), None, known(data))


def _at(days: Int64s, time: Int64s | None, valid: Bools | None) -> Value:
    """Timestamps of days and a time in each, in microseconds. Fails where there is none."""
    none = (days < _LEAST_DAY) | (days > _MOST_DAY)
    rest: Any = 0 if time is None else time
    # A product that does not fit is right again with the rest, unless the sum does not fit either.
    none |= (days == _LEAST_DAY) & (rest < _LEAST - _LEAST_DAY * DAY)
    none |= (days == _MOST_DAY) & (rest > _MOST - _MOST_DAY * DAY)
    return failing(days * DAY + rest, none, TIMESTAMP, valid)


def failing(numbers: Int64s, fails: Bools, data_type: pa.DataType, valid: Bools | None) -> Value:
    """Numbers that fail for rows, if those are not null anyway."""
    if valid is not None:
        fails = fails & valid
    if not fails.any():
        return Value(array_of(numbers, data_type, valid))
    return Value(array_of(numbers, data_type, ~fails if valid is None else valid & ~fails), fails)


def add_days(data: pa.Array, days: pa.Array) -> Value:
    """Dates so many days later. Those far away begin again at the other end, as in Spark."""
    return Value(array_of(days_of(data) + plain(days), pa.date32(), known(data, days)))


def subtract_days(data: pa.Array, days: pa.Array) -> Value:
    """Dates so many days earlier, see `add_days`."""
    return Value(array_of(days_of(data) - plain(days), pa.date32(), known(data, days)))


def days_between(end: pa.Array, start: pa.Array) -> Value:
    """How many days are from start to end, as int."""
    return Value(array_of(days_of(end) - days_of(start), pa.int32(), known(end, start)))


def add_months(data: pa.Array, months: pa.Array) -> Value:
    """Dates or timestamps so many months later; the last of a month where it has no such day. Fails far away."""
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
    """The last day of the months of dates."""
    return Value(array_of(_first_of(_months(days_of(data)) + 1) - 1, pa.date32(), known(data)))


def _monday(days: Int64s) -> Int64s:
    """The Monday on or before a day; among the first days of all what Spark makes of an overflow."""
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
"""The first day of what a day is in."""

_LENGTHS = {"millisecond": 1000, "second": SECOND, "minute": 60 * SECOND, "hour": 3600 * SECOND, "day": DAY}


def start_of_date(data: pa.Array, unit: str) -> Value:
    """The first day of the week, month, quarter or year of dates."""
    days, valid = _STARTS[unit](days_of(data)), known(data)
    if unit == "quarter":
        return failing(days, _no_date(days), pa.date32(), valid)
    return Value(array_of(days, pa.date32(), valid))


def start_of(data: pa.Array, unit: str) -> Value:
    """Timestamps without what is smaller than a unit. Fails for the first that there are."""
    valid, times = known(data), numbers_of(data)
    if unit in _STARTS:
        return _at(_STARTS[unit](times // DAY), None, valid)
    rest = times % _LENGTHS[unit]
    return failing(times - rest, times < _LEAST + rest, TIMESTAMP, valid)


def later(data: pa.Array, microseconds: int) -> Value:
    """Timestamps so much later. Fails where there is none."""
    times = numbers_of(data)
    found = times + microseconds
    return failing(found, (found < times) if microseconds >= 0 else (found > times), TIMESTAMP, known(data))


def since_epoch(data: pa.Array, microseconds: int) -> Value:
    """The units of so many microseconds since 1970 as bigint, the fraction cut off downwards."""
    return Value(array_of(numbers_of(data) // microseconds, pa.int64(), known(data)))


def seconds_of(data: pa.Array) -> Value:
    """Seconds since 1970 as bigint, as `unix_timestamp` counts them: the fraction is cut off towards 0."""
    times = numbers_of(data)
    down = times // SECOND
    return Value(array_of(down + ((times < 0) & (times % SECOND != 0)), pa.int64(), known(data)))


def at_second(data: pa.Array) -> Value:
    """The timestamps of seconds since 1970, as `from_unixtime` counts them: an overflow is silent."""
    return Value(array_of(plain(data) * SECOND, TIMESTAMP, known(data)))


def from_epoch(data: pa.Array, microseconds: int) -> Value:
    """The timestamps of units of so many microseconds since 1970. Fails where there is none."""
    numbers = plain(data)
    fails = (numbers > _MOST // microseconds) | (numbers < -(-_LEAST // microseconds))
    return failing(numbers * microseconds, fails, TIMESTAMP, known(data))


def of_seconds(data: pa.Array) -> Value:
    """The timestamps of whole seconds as a cast makes them: what is too far away is the last that there is."""
    seconds = plain(data)
    times = seconds * SECOND
    times[seconds > _MOST // SECOND] = _MOST
    times[seconds <= _LEAST // SECOND] = _LEAST
    return Value(array_of(times, TIMESTAMP, known(data)))


def days_as_dates(data: pa.Array) -> Value:
    """Dates of their days since 1970."""
    return Value(array_of(plain(data), pa.date32(), known(data)))


def dates_as_days(data: pa.Array) -> Value:
    """Days since 1970, as int."""
    return Value(array_of(numbers_of(data), pa.int32(), known(data)))


def in_seconds(data: pa.Array) -> Value:
    """Seconds since 1970, as double."""
    return Value(pa.array(numbers_of(data) / float(SECOND), mask=None if (valid := known(data)) is None else ~valid))


def date_of(year: pa.Array, month: pa.Array, day: pa.Array) -> Value:
    """Dates of year, month and day. Fails where there is none."""
    years, months, days = plain(year), plain(month), plain(day)
    first = (years - 1970) * 12 + np.clip(months, 1, 12) - 1
    found = _first_of(first) + days - 1
    fails = (months < 1) | (months > 12) | (days < 1) | (found >= _first_of(first + 1)) | _no_date(found)
    return failing(found, fails, pa.date32(), known(year, month, day))


# Dates and timestamps as texts, as Java writes them: years behind 9999 and before 0 have a sign.

Pattern = Sequence[str]
"""What a text is made of: letters as in Java's patterns (`yyyy`, `MM`), and other texts as they are."""

DATE_PATTERN = ("yyyy", "-", "MM", "-", "dd")
TIME_PATTERN = (*DATE_PATTERN, " ", "HH", ":", "mm", ":", "ss", ".", "SSSSSS")


def formatted(data: pa.Array, pattern: Pattern) -> Value:
    """Dates or timestamps, written by a pattern."""
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
    """Timestamps as a cast writes them: no fraction of a second if it is 0, and no zeros at its end."""
    texts = formatted(data, TIME_PATTERN).data
    return Value(pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), "."))


def _piece(piece: str, days: Int64s, time: Int64s) -> npt.NDArray[np.uint8] | str:
    """The digits of a part, a row of bytes of each; or a text that is the same in all."""
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
    """Texts that all have the same length, of pieces."""
    wide = [
        np.broadcast_to(np.frombuffer(each.encode(), np.uint8), (rows, len(each))) if isinstance(each, str) else each
        for each in pieces
    ]
    letters = np.concatenate(wide, axis=1)
    offsets = np.arange(rows + 1, dtype=np.int32) * letters.shape[1]
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(letters.tobytes()))


def _with_signs(pattern: Pattern, years: Int64s, days: Int64s, time: Int64s) -> list[str]:
    """Texts of years that do not have four digits."""
    signed = [f"{'-' if year < 0 else '+'}{abs(year):04}" for year in years.tolist()]
    columns = [
        signed if each == "yyyy" else _texts([_piece(each, days, time)], len(years)).to_pylist() for each in pattern
    ]
    return ["".join(each) for each in zip(*columns, strict=True)]
