"""Functions of texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...records.types import arrow_type
from ..promotion import unproven

# Functions of texts as Spark SQL has them, composed of Arrow's kernels. Characters are code points, as in Spark.

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


# `upper` and `lower` as Spark SQL has them: by Unicode 17, whatever version Python knows.
#
# Python and Spark follow the same rules, also for letters that become two, and for a sigma at the end of a word. Their
# versions of Unicode differ by the characters below, for which neither depends on what Python knows of them.


def upper(data: pa.Array | pa.Scalar) -> Any:
    """Texts in capital letters."""
    if _all_ascii(data):
        return pc.ascii_upper(data)
    return by_text(data, lambda text: text.translate(_CAPITAL).upper(), pa.string())


def lower(data: pa.Array | pa.Scalar) -> Any:
    """Texts in small letters."""
    if _all_ascii(data):
        return pc.ascii_lower(data)
    return by_text(data, _small, pa.string())


def _all_ascii(data: pa.Array | pa.Scalar) -> bool:
    found = pc.string_is_ascii(data)
    return bool((found if isinstance(data, pa.Scalar) else pc.all(found)).as_py())


def _small(text: str) -> str:
    if "Σ" in text:  # its form is decided by the characters around it: these are replaced one by one
        around = text.translate(_ROLES).lower()
        text = "".join(there if here == "Σ" else here for here, there in zip(text, around, strict=True))
    return text.translate(_SMALL).lower()


def _codes(ranges: str) -> list[int]:
    ends = [each.split("-") for each in ranges.split()]
    return [code for each in ends for code in range(int(each[0], 16), int(each[-1], 16) + 1)]


_PAIRS = [
    (0xA7CB, 0x264),
    (0xA7DC, 0x19B),
    *((code, code + 1) for code in _codes("1C89 A7CC A7CE A7D2 A7D4 A7DA")),
    *((code, code + 0x20) for code in _codes("10D50-10D65")),
    *((code, code + 0x1B) for code in _codes("16EA0-16EB8")),
]
"""Capital and small letters that are pairs since a version of Unicode behind 14, that of Python 3.11."""

_SMALL = dict(_PAIRS)
_CAPITAL = {small: capital for capital, small in _PAIRS}

_LETTERS = "1C89-1C8A A7CB-A7CF A7D2 A7D4 A7DA-A7DC 10D50-10D65 10D70-10D85 16EA0-16EB8 16EBB-16ED3 1DF25-1DF2A"
_MARKS = (
    "897 ECE 1ACF-1ADD 1AE0-1AEB A7F1 10D4E 10D69-10D6D 10D6F 10EC5 10EFA-10EFF 11241 113BB-113C0 113CE 113D0 113D2 "
    "113E1-113E2 11B60 11B62-11B64 11B66 11DD9 11F00-11F01 11F36-11F3A 11F40 11F42 11F5A 13439-13440 13447-13455 "
    "1611E-16129 1612D-1612F 16D40-16D42 16D6B-16D6C 16FF2-16FF3 1E030-1E06D 1E08F 1E4EB-1E4EF 1E5EE-1E5EF 1E6E3 1E6E6 "
    "1E6EE-1E6EF 1E6F5 1E6FF"
)
_ROLES = {
    ord("İ"): "I",  # which becomes two characters in small letters
    **dict.fromkeys(_codes(_LETTERS), "a"),
    **dict.fromkeys(_codes(_MARKS), "\u0301"),
    **dict.fromkeys(_codes("295 1171E"), " "),
}
"""Characters whose part in a word is another one since: one with the same part that each version knows."""


# Patterns of `like` and `rlike`, written as Arrow's kernels need them, where both provably find the same texts.

_ATOM = r"(?:[\w \-,:;@#%&=!~'\"<>/]|\.|\[(?:[A-Za-z0-9_ ,:;@#%=!]|[A-Z]-[A-Z]|[a-z]-[a-z]|[0-9]-[0-9])+\])"
_COUNT = r"(?:[*+?]|\{\d{1,2}\}|\{\d{1,2},\d{1,2}\})"
_BRANCH = re.compile(rf"(\^?)((?:{_ATOM}{_COUNT}?)*)(\$?)", re.ASCII)
_PART = re.compile(r"\[[^]]*\]|.", re.DOTALL)
_RANGE = re.compile(r"(.)-(.)")
_TIMES = re.compile(r"\{(\d+),(\d+)\}")

_LINE_ENDS = r"\n\r\x{85}\x{2028}\x{2029}"
"""For Java `.` is none of these characters, and `$` is also in front of one of them, or of both, at the end."""


def of_like(pattern: str, escape: str) -> str:
    """A pattern of `like` with a backslash as its escape. Raises UnprovenError."""
    if not escape:
        return pattern
    found, at = [], 0
    while at < len(pattern):
        one, at = pattern[at], at + 1
        if one == escape:
            one, at = pattern[at : at + 1], at + 1
            if one not in (escape, "%", "_"):
                unproven("a pattern with an escape in front of another character is only known to Spark SQL")
            one = one if one not in "%_" else f"\\{one}"
        found.append(one)
    return "".join(found)


def of_rlike(pattern: str) -> str:
    """A pattern of `rlike` for RE2, of characters, classes of them, counts, alternatives and ends.

    Raises UnprovenError.
    """
    return "|".join(map(_branch, pattern.split("|")))


def _branch(branch: str) -> str:
    matched = _BRANCH.fullmatch(branch)
    if matched is None or not _is_ascii_range(branch):
        unproven(f"the regular expression '{branch}' is only proven in Spark SQL")
    start, body, end = matched.groups()
    parts = [f"[^{_LINE_ENDS}]" if each == "." else each for each in _PART.findall(body)]
    ends = rf"(?:\r\n|[{_LINE_ENDS}])?\z" if end else ""
    return (r"\A" if start else "") + "".join(parts) + ends


def _is_ascii_range(branch: str) -> bool:
    in_order = all(first <= last for first, last in _RANGE.findall(branch) if "[" in branch)
    return in_order and all(int(least) <= int(most) for least, most in _TIMES.findall(branch))
