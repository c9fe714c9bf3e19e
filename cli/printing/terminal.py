"""Lines on stdout and stderr, with colour where the terminal has it."""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from shutil import get_terminal_size
from typing import IO, TYPE_CHECKING, Any, cast

import click

from ...readable_text import UNICODE_ESCAPES, entry, readable, visible

if TYPE_CHECKING:
    from rich.console import Console


# Prints for commands: text with styles on a terminal, plain text elsewhere.
#
# With `NO_COLOR` or `TERM=dumb` there are no styles on a terminal either.

ERROR = ("error: ", "bold red")
WARNING = ("warning: ", "bold yellow")


def console(*, err: bool = False, file: IO[str] | None = None) -> Console:
    """A rich console on the present stdout or stderr, which tests replace, or on `file`. It reads no markup."""
    from rich.console import Console

    columns, lines = get_terminal_size()
    return Console(
        file=file,
        stderr=err,
        width=columns,  # with width and height given, rich does not assume 80 columns where TERM is dumb
        height=lines,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        markup=False,
        emoji=False,
        highlight=False,
    )


class _Lossy:
    """A stream that leaves out what it cannot write: the terminal is gone, or nobody reads it."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


def lossy(stream: IO[str]) -> IO[str]:
    """The stream for what goes on when nobody can see it any more."""
    return cast("IO[str]", _Lossy(stream))


def is_terminal(*, err: bool = False) -> bool:
    """Whether stdout (or stderr) is a terminal. Output to a file or a program is never cut or folded."""
    stream = sys.stderr if err else sys.stdout
    return stream is not None and stream.isatty()


def say(*parts: str | tuple[str, str], err: bool = False) -> None:
    """Print a line of texts, some with a style, as in `say(ERROR, message)`. The line is not folded.

    Values of environment variables that a profile names are hidden in it.
    """
    from rich.text import Text

    shown = [(_shown(part), "") if isinstance(part, str) else (_shown(part[0]), part[1]) for part in parts]
    console(err=err).print(Text.assemble(*shown), soft_wrap=True)


def tell(text: str, *, err: bool = False) -> None:
    """Print a line without styles, which needs no rich. Its text is shown as `say` does."""
    click.echo(_shown(text), err=err)


def _shown(text: str) -> str:
    return entry(visible(readable(text), lines=True))


def named(name: str, message: str) -> str:
    """A message with the name of what it is about before it, unless the message has the name."""
    return message if name in message else f"{name}: {message}"


# Standard output whose errors say that it is standard output: the system names no file for one that is open.
#
# What its encoding lacks is written as `\u20ac`: a command does not end because of a letter.

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
