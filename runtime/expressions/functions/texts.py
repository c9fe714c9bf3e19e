"""Functions of texts as Spark SQL has them, composed of Arrow's kernels. Characters are code points, as in Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...records.types import arrow_type

_TEXT, _INT = arrow_type("string"), arrow_type("int")


def cut(data: pa.Array | pa.Scalar, start: int, length: int | None) -> Any:
    """`length` characters from position `start`, counted from 1, or from the end if it is below 0; None: all behind.

    A position in front of the text counts: `substring('ab', -3, 2)` is `a`.
    """
    if length is not None and length <= 0:
        return pc.utf8_slice_codeunits(data, 0, 0)
    first = start - 1 if start > 0 else start
    last = None if length is None or first < 0 <= first + length else first + length
    return pc.utf8_slice_codeunits(data, first, last)


def joined(*data: pa.Array | pa.Scalar, separator: str) -> Any:
    """Texts with a separator in between. Null ones are left out; it is empty if all are."""
    first, *others = data
    for each in others:
        first = pc.coalesce(pc.binary_join_element_wise(first, each, separator), first, each)
    return pc.coalesce(first, pa.scalar("", _TEXT))


def padded(kernel: Callable[..., Any], data: pa.Array | pa.Scalar, width: int, padding: str) -> Any:
    """A text of exactly `width` characters: its first ones, or all, padded by `kernel` with one character."""
    return pc.utf8_slice_codeunits(kernel(data, width, padding), 0, width)


def repeated(data: pa.Array | pa.Scalar, times: int) -> Any:
    """A text some times, one behind the other."""
    return pc.binary_repeat(data, times)


def position(data: pa.Array | pa.Scalar, part: str) -> Any:
    """Where a text that is not empty is first found, counted from 1; 0 if it is not."""
    return by_text(data, lambda text: text.find(part) + 1, _INT)


def piece(data: pa.Array | pa.Scalar, separator: str, number: int) -> Any:
    """The piece with a number, counted from 1, or from the end if it is below 0; empty if there are not so many."""
    at = number - 1 if number > 0 else number

    def chosen(text: str) -> str:
        pieces = text.split(separator)
        return pieces[at] if -len(pieces) <= at < len(pieces) else ""

    return by_text(data, chosen, _TEXT)


def up_to(data: pa.Array | pa.Scalar, separator: str, number: int) -> Any:
    """What is in front of the separator with a number; below 0: behind it, from the end.

    As in Spark the next separator begins a character later, so those in 'aaa' are two 'aa'.
    """

    def front(text: str) -> str:
        at = -1
        for _ in range(number):
            at = text.find(separator, at + 1)
            if at < 0:
                return text
        return text[:at]

    def back(text: str) -> str:
        at = len(text) + 1
        for _ in range(-number):
            at = text.rfind(separator, 0, max(at - 1 + len(separator), 0))
            if at < 0:
                return text
        return text[at + len(separator) :]

    return by_text(data, front if number > 0 else back, _TEXT)


def by_text(data: pa.Array | pa.Scalar, function: Callable[[str], Any], data_type: pa.DataType) -> Any:
    """What a function gives for each text that is not null: where Arrow has no kernel for it."""
    if isinstance(data, pa.Scalar):
        return pa.scalar(function(data.as_py()) if data.is_valid else None, data_type)
    return pa.array([None if each is None else function(each) for each in data.to_pylist()], data_type)
