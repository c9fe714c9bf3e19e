"""Dates and timestamps as texts, as Java writes them: years behind 9999 and before 0 have a sign."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..records.arrays import Int64s
from .calendar import DAY, PARTS, SECOND, known, numbers_of
from .values import Value

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
