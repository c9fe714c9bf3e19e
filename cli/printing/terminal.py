"""Prints for commands: text with styles on a terminal, plain text elsewhere.

With `NO_COLOR` or `TERM=dumb` there are no styles on a terminal either.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from shutil import get_terminal_size
from typing import IO, TYPE_CHECKING, Any, cast

import click

from ...readable_text import entry, readable, visible

if TYPE_CHECKING:
    from rich.console import Console

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
