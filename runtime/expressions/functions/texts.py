"""String functions, `upper` and `lower`, and patterns of `like` and `rlike`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...records.types import arrow_type
from ..promotion import unproven

# String functions of Spark SQL, composed of Arrow's kernels. They count characters in code points, as Spark does.
#
# `data` is a string array, or a scalar for all rows. All functions but `joined` give null for null.

_TEXT, _INT = arrow_type("string"), arrow_type("int")


def cut(data: pa.Array | pa.Scalar, start: int, length: int | None) -> Any:
    """`substring`: `length` characters from position `start` (None: all to the end).

    Positions count from 1, or from the end if negative. A negative position before the first character also counts:
    (start -3, length 2) gives "de" for "abcdef", but "a" for "ab", which has no character at position -3.
    """
    if length is not None and length <= 0:
        return pc.utf8_slice_codeunits(data, 0, 0)
    first = start - 1 if start > 0 else start
    last = None if length is None or first < 0 <= first + length else first + length
    return pc.utf8_slice_codeunits(data, first, last)


def joined(*data: pa.Array | pa.Scalar, separator: str) -> Any:
    """`concat_ws`: strings joined by a separator. Nulls are skipped; the result is empty if all are null.

    Example:

        data    ["a", null, null] and ["b", "c", null]
        result  ["a-b", "c", ""]      with the separator "-"
    """
    first, *others = data
    for each in others:
        first = pc.coalesce(pc.binary_join_element_wise(first, each, separator), first, each)
    return pc.coalesce(first, pa.scalar("", _TEXT))


def padded(kernel: Callable[..., Any], data: pa.Array | pa.Scalar, width: int, padding: str) -> Any:
    """`lpad`, `rpad`: strings padded or truncated to `width` characters. `padding`: one character."""
    return pc.utf8_slice_codeunits(kernel(data, width, padding), 0, width)


def repeated(data: pa.Array | pa.Scalar, times: int) -> Any:
    """`repeat`: each string repeated `times` times."""
    return pc.binary_repeat(data, times)


def position(data: pa.Array | pa.Scalar, part: str) -> Any:
    """`position`: the position of the first occurrence of `part`, counted from 1; 0 if there is none."""
    return by_text(data, lambda text: text.find(part) + 1, _INT)


def piece(data: pa.Array | pa.Scalar, separator: str, number: int) -> Any:
    """`split_part`: a piece by number, counted from 1, or from the end if negative; empty if out of range.

    "a,b,c" has the piece "c" for -1, and "" for 4.
    """
    at = number - 1 if number > 0 else number

    def chosen(text: str) -> str:
        pieces = text.split(separator)
        return pieces[at] if -len(pieces) <= at < len(pieces) else ""

    return by_text(data, chosen, _TEXT)


def up_to(data: pa.Array | pa.Scalar, separator: str, number: int) -> Any:
    """`substring_index`: the text before the separator with this number; negative: after it, counted from the end.

    The whole string if there are fewer separators. "a.b.c" gives "a.b" for 2, and "b.c" for -2. Separators may
    overlap, as in Spark: "aaa" contains "aa" twice, so it gives "" for 1, and "a" for 2.
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
    """A Python function applied to each string that is not null, where Arrow has no kernel."""
    if isinstance(data, pa.Scalar):
        return pa.scalar(function(data.as_py()) if data.is_valid else None, data_type)
    return pa.array([None if each is None else function(each) for each in data.to_pylist()], data_type)


# `upper` and `lower` by Unicode 17, as in Spark SQL, whatever version of Unicode Python has.
#
# Python and Spark follow the same rules, also for letters that become two letters, and for a sigma at the end of a
# word. The tables below contain the characters that differ between versions of Unicode. They are replaced before
# Python sees them.


def upper(data: pa.Array | pa.Scalar) -> Any:
    """Strings in upper case."""
    if _all_ascii(data):
        return pc.ascii_upper(data)
    return by_text(data, lambda text: text.translate(_CAPITAL).upper(), pa.string())


def lower(data: pa.Array | pa.Scalar) -> Any:
    """Strings in lower case."""
    if _all_ascii(data):
        return pc.ascii_lower(data)
    return by_text(data, _small, pa.string())


def _all_ascii(data: pa.Array | pa.Scalar) -> bool:
    found = pc.string_is_ascii(data)
    return bool((found if isinstance(data, pa.Scalar) else pc.all(found)).as_py())


def _small(text: str) -> str:
    if "Σ" in text:  # its lower case depends on the characters around it, which get equivalents that Python knows
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
"""Pairs of upper and lower case, as code points, that are newer than Unicode 14, the version of Python 3.11."""

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
    ord("İ"): "I",  # its lower case has two characters, which would shift positions
    **dict.fromkeys(_codes(_LETTERS), "a"),
    **dict.fromkeys(_codes(_MARKS), "\u0301"),
    **dict.fromkeys(_codes("295 1171E"), " "),
}
"""Characters whose role in a word (letter, mark, other) changed: code point -> an old character of the new role."""


# Patterns of `like` and `rlike`, translated for Arrow's kernels. Patterns that might match differently are rejected.

_ATOM = r"(?:[\w \-,:;@#%&=!~'\"<>/]|\.|\[(?:[A-Za-z0-9_ ,:;@#%=!]|[A-Z]-[A-Z]|[a-z]-[a-z]|[0-9]-[0-9])+\])"
_COUNT = r"(?:[*+?]|\{\d{1,2}\}|\{\d{1,2},\d{1,2}\})"
_BRANCH = re.compile(rf"(\^?)((?:{_ATOM}{_COUNT}?)*)(\$?)", re.ASCII)
_PART = re.compile(r"\[[^]]*\]|.", re.DOTALL)
_RANGE = re.compile(r"(.)-(.)")
_TIMES = re.compile(r"\{(\d+),(\d+)\}")

_LINE_ENDS = r"\n\r\x{85}\x{2028}\x{2029}"
r"""Java's line terminators. In Java `.` does not match them, and `$` also matches before a final one, or \r\n."""


def of_like(pattern: str, escape: str) -> str:
    r"""A pattern of `like` with a backslash in place of `escape`: 10#%_ with the escape # becomes 10\%_.

    Raises UnprovenError if the escape stands before a character that needs none.
    """
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
    r"""A pattern of `rlike` (Java) as a pattern of RE2, Arrow's engine.

    Raises UnprovenError for anything but characters, character classes, repetitions, alternatives, `^` and `$`. The
    anchors and `.` are replaced, because they treat line terminators differently in RE2. With L for `_LINE_ENDS`:

        ^a.b$|[0-9]{2}
        \Aa[^L]b(?:\r\n|[L])?\z|[0-9]{2}
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
