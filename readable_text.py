"""Text from outside as people may see it: in messages, logs, tables, and in JSON for programs.

Errors of users' code, values, names, paths and answers of libraries may have any character: lone surrogates, which no
file takes, and characters that steer a terminal or look like another line of a log. Every message passes through
`readable`, every line that is printed through `visible`, JSON through `json_text`, and what standard output cannot
encode through `as_unicode_escapes`. Data stays as it is: JSON that is parsed again gives the same text.
"""

from __future__ import annotations

import codecs
import json
import re
import sys
import traceback
from types import TracebackType
from typing import Any

from .hidden_values import hide

_STEERING = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
"""Control characters (C0 but for tab, line feed and carriage return, and C1), what looks like a line's end, direction
marks, and format characters without a shape. Joiners stay: Persian and emoji are written with them.
"""

_UNREADABLE = re.compile(f"[{_STEERING}\r\ud800-\udfff\ufeff\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e0fff]")

_BLANK = re.compile("[\t\r]")
_BLANK_IN_A_LINE = re.compile("[\t\n\r]")

_LINE_START = re.compile(r"\n(?=\S)")


def readable(text: str, at: str | None = None) -> str:
    """A text for a message: without hidden values, and with escapes (`\\x1b`) for what nobody could read or write.

    Line feeds and tabs stay. `at`: the `file:line` that a finding is about.
    """
    return _UNREADABLE.sub(_python_escape, hide(text, at))


def visible(text: str, *, lines: bool = False) -> str:
    """A text for a terminal or a line of a log. `lines`: line feeds are kept; else they are blanks, as tabs are."""
    return _UNREADABLE.sub(_python_escape, (_BLANK if lines else _BLANK_IN_A_LINE).sub(" ", text))


def entry(text: str) -> str:
    """A message as an entry of a log: its further lines are indented, so that none can look like an entry."""
    return _LINE_START.sub("\n  ", text)


def readable_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an error that nobody explains with its traceback, as `sys.excepthook`, as a text for a message."""
    if sys.stderr is not None:
        sys.stderr.write(readable("".join(traceback.format_exception(kind, error, trace))))


def json_text(value: Any, *, indent: int | None = None, allow_nan: bool = True) -> str:
    """A value as JSON that can be written and shown: exact, with letters as they are, and escapes for the rest."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=allow_nan)
    return _UNREADABLE.sub(_json_escape, text)


def as_unicode_escapes(error: UnicodeError) -> tuple[str, int]:
    """An error handler of codecs: characters that an encoding lacks as `\\u20ac`, which is right in JSON too."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(f"\\u{unit:04x}" for each in missing for unit in _units(each)), error.end


UNICODE_ESCAPES = "headwater_unicode_escapes"
"""The name of `as_unicode_escapes` for `errors` of a stream."""

codecs.register_error(UNICODE_ESCAPES, as_unicode_escapes)


def _python_escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


def _json_escape(found: re.Match[str]) -> str:
    return "".join(f"\\u{unit:04x}" for unit in _units(found[0]))


def _units(character: str) -> memoryview:
    """The UTF-16 code units of a character."""
    return memoryview(character.encode("utf-16", "surrogatepass")[2:]).cast("H")
