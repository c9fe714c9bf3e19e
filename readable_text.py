"""Text for people: text from outside, made safe to show in messages, logs, tables and JSON; numbers and lists in words.

Errors of users' code, values, names, paths and library messages may contain any character. Lone surrogates cannot be
written to a file, and control characters steer a terminal or fake a line of a log. Every message passes through
`readable`, every printed line through `visible`, JSON through `json_text`, and what standard output cannot encode
through `as_unicode_escapes`. Data does not change: parsing the JSON gives the same text.
"""

from __future__ import annotations

import codecs
import json
import re
import sys
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

from .hidden_values import hide

_STEERING = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
"""Control characters (C0 except tab, line feed and carriage return; C1), characters that look like a line end,
direction marks, and invisible format characters. Joiners stay: Persian and emoji are written with them.
"""

_UNREADABLE = re.compile(f"[{_STEERING}\r\ud800-\udfff\ufeff\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e0fff]")

_BLANK = re.compile("[\t\r]")
_BLANK_IN_A_LINE = re.compile("[\t\n\r]")

_LINE_START = re.compile(r"\n(?=\S)")


def readable(text: str, at: str | None = None) -> str:
    """The text for a message: hidden values become `***`, unreadable characters become escapes (`\\x1b`).

    Line feeds and tabs stay. `at`: the `file:line` of the diagnostic that the text belongs to.
    """
    return _UNREADABLE.sub(_python_escape, hide(text, at))


def visible(text: str, *, lines: bool = False) -> str:
    """The text for a terminal or a line of a log. Tabs become blanks; line feeds too, unless `lines` is set."""
    return _UNREADABLE.sub(_python_escape, (_BLANK if lines else _BLANK_IN_A_LINE).sub(" ", text))


def entry(text: str) -> str:
    """A message as one entry of a log: further lines are indented, so that none looks like an entry of its own."""
    return _LINE_START.sub("\n  ", text)


def readable_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an unexpected error with its traceback, as `sys.excepthook` does, with the text made readable."""
    if sys.stderr is not None:
        sys.stderr.write(readable("".join(traceback.format_exception(kind, error, trace))))


def json_text(value: Any, *, indent: int | None = None, allow_nan: bool = True) -> str:
    """The value as JSON that can be written and shown: exact, letters unescaped, unreadable characters escaped."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=allow_nan)
    return _UNREADABLE.sub(_json_escape, text)


def as_unicode_escapes(error: UnicodeError) -> tuple[str, int]:
    """An error handler for codecs: writes characters that an encoding lacks as `\\u20ac`, also valid in JSON."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(f"\\u{unit:04x}" for character in missing for unit in _units(character)), error.end


UNICODE_ESCAPES = "headwater_unicode_escapes"
"""The name of `as_unicode_escapes`, for the `errors` argument of a stream."""

codecs.register_error(UNICODE_ESCAPES, as_unicode_escapes)


def _python_escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


def _json_escape(match: re.Match[str]) -> str:
    return "".join(f"\\u{unit:04x}" for unit in _units(match[0]))


def _units(character: str) -> memoryview:
    """The UTF-16 code units of a character."""
    return memoryview(character.encode("utf-16", "surrogatepass")[2:]).cast("H")


# Numbers, times and lists in sentences.

MOST_SAID = 10
"""The most items of a list in a sentence."""


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """`1 record`, `2,000 records`. `plural`: None if it is the singular with an s."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def moment(ms: int) -> str:
    """`2026-03-01 12:00:00 UTC`. `ms`: since 1970."""
    try:
        return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):  # an assignor may give any number
        return f"{ms:,} ms since 1970"


def first_of(items: Sequence[str], between: str = ", ") -> str:
    """The first MOST_SAID items, and the number of the others."""
    more = len(items) - MOST_SAID
    return between.join([*items[:MOST_SAID], *([f"and {more:,} more"] if more > 0 else [])])
