"""Patterns of `like` and `rlike`, written as Arrow's kernels need them, where both provably find the same texts."""

from __future__ import annotations

import re

from ..promotion import unproven

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
