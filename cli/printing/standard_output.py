"""Standard output whose errors say that it is standard output: the system names no file for one that is open.

What its encoding lacks is written as `\\u20ac`: a command does not end because of a letter.
"""

from __future__ import annotations

import codecs
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, cast

from ...readable_text import UNICODE_ESCAPES
from .terminal import lossy

_NAME = "standard output"


class _Named:
    """A stream whose errors have its name in the place of a path."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with _named():
            return self._stream.write(text)

    def flush(self) -> None:
        with _named():
            self._stream.flush()


@contextmanager
def _named() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        error.filename = _NAME
        raise


def name_standard_output() -> None:
    """Have each OSError of this process's standard output name it, and escape what its encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # ASCII is what nobody has set up: click writes UTF-8 then, so rich and Python do so, too.
            encoding = "utf-8" if codecs.lookup(stream.encoding).name == "ascii" else None
            stream.reconfigure(encoding=encoding, errors=UNICODE_ESCAPES)
    if sys.stdout is not None and not isinstance(sys.stdout, _Named):  # it is None where it is closed
        sys.stdout = cast("Any", _Named(sys.stdout))


def leave_standard_output(error: BaseException) -> None:
    """If this is an error of standard output, do not tell it again: Python tries once more to write when it ends."""
    if isinstance(error, OSError) and error.filename == _NAME:
        sys.stdout = cast("Any", lossy(sys.stdout))
