"""Lines on stdout and stderr, coloured if the terminal supports it."""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from shutil import get_terminal_size
from typing import IO, TYPE_CHECKING, Any, cast

import click

from ...readable_text import UNICODE_ESCAPES, entry, readable, visible

if TYPE_CHECKING:
    from rich.console import Console


# Styled text on a terminal, plain text elsewhere.
#
# `NO_COLOR` or `TERM=dumb` turn styles off.

ERROR = ("error: ", "bold red")
WARNING = ("warning: ", "bold yellow")


def console(*, err: bool = False, file: IO[str] | None = None) -> Console:
    """A rich console on the present stdout or stderr (tests replace them), or on `file`. Markup is off."""
    from rich.console import Console

    columns, lines = get_terminal_size()
    return Console(
        file=file,
        stderr=err,
        width=columns,  # with both given, rich does not assume 80 columns for a dumb TERM
        height=lines,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        markup=False,
        emoji=False,
        highlight=False,
    )


class _Handling:
    """A stream that writes within a context, which handles its OS errors."""

    def __init__(self, stream: IO[str], context: Callable[[], AbstractContextManager[None]]) -> None:
        self._stream = stream
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with self._context():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._context():
            self._stream.flush()


def lossy(stream: IO[str]) -> IO[str]:
    """The stream without errors, for output of work that continues when nobody can see it.

    The terminal may be gone, or the reader of a pipe.
    """
    return cast("IO[str]", _Handling(stream, lambda: suppress(OSError)))


def is_terminal(*, err: bool = False) -> bool:
    """Whether stdout (or stderr) is a terminal. Output elsewhere is never cut or folded."""
    stream = sys.stderr if err else sys.stdout
    return stream is not None and stream.isatty()


def print_styled(*parts: str | tuple[str, str], err: bool = False) -> None:
    """Print a line of texts, some with a style: `print_styled(ERROR, message)`. The line is not folded.

    Values of environment variables that a profile names are hidden.
    """
    from rich.text import Text

    shown = [(_shown(part), "") if isinstance(part, str) else (_shown(part[0]), part[1]) for part in parts]
    console(err=err).print(Text.assemble(*shown), soft_wrap=True)


def print_line(text: str, *, err: bool = False) -> None:
    """Print a line without styles, which needs no rich. Its text is prepared as in `print_styled`."""
    click.echo(_shown(text), err=err)


def _shown(text: str) -> str:
    return entry(visible(readable(text), lines=True))


def with_name(name: str, message: str) -> str:
    """The message, prefixed with a name unless the message contains it."""
    return message if name in message else f"{name}: {message}"


# Standard output that names itself in its errors: the system names no file for an open stream.
#
# Characters that its encoding lacks are written as `\u20ac`: they do not end a command.

_STANDARD_OUTPUT = "standard output"


@contextmanager
def _named() -> Iterator[None]:
    """Give OS errors the name of the stream as their path."""
    try:
        yield
    except OSError as error:
        error.filename = _STANDARD_OUTPUT
        raise


def name_standard_output() -> None:
    """Let OS errors of standard output name it, and escape characters that an encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # ASCII means that no encoding is configured: click then writes UTF-8, so rich and Python do, too.
            encoding = "utf-8" if codecs.lookup(stream.encoding).name == "ascii" else None
            stream.reconfigure(encoding=encoding, errors=UNICODE_ESCAPES)
    if sys.stdout is not None and not isinstance(sys.stdout, _Handling):  # None: closed by the caller
        sys.stdout = cast("Any", _Handling(sys.stdout, _named))


def leave_standard_output(error: BaseException) -> None:
    """Drop an error of standard output: Python tries to write once more when it exits, and would report it again."""
    if isinstance(error, OSError) and error.filename == _STANDARD_OUTPUT:
        sys.stdout = cast("Any", lossy(sys.stdout))
