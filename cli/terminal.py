"""Where commands print: text with styles on a terminal, plain text elsewhere.

`NO_COLOR` and `TERM=dumb` leave styles out on a terminal, too.
"""

from __future__ import annotations

import os
import sys
from shutil import get_terminal_size
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

ERROR = ("error: ", "bold red")
WARNING = ("warning: ", "bold yellow")


def console(*, err: bool = False) -> Console:
    """What prints to stdout, or to stderr, as they are at this moment. Texts mean what they say: there is no markup."""
    from rich.console import Console

    columns, lines = get_terminal_size()
    return Console(
        stderr=err,
        width=columns,  # with both of them, rich does not take 80 where TERM is dumb
        height=lines,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        markup=False,
        emoji=False,
        highlight=False,
    )


def is_terminal(*, err: bool = False) -> bool:
    """Whether somebody looks at stdout (or stderr): what goes to a file or a program is never cut or folded."""
    stream = sys.stderr if err else sys.stdout
    return stream is not None and stream.isatty()


def say(*parts: str | tuple[str, str], err: bool = False) -> None:
    """Print a line of texts, some with a style, as in `say(ERROR, message)`; it is not folded."""
    from rich.text import Text

    shown = [visible(part, lines=True) if isinstance(part, str) else part for part in parts]
    console(err=err).print(Text.assemble(*shown), soft_wrap=True)


def visible(text: str, *, lines: bool = False) -> str:
    """A text without what would move the cursor or change the terminal. `lines`: it may have several."""
    kept, blank = ("\n", "\t\r") if lines else ("", "\t\n\r")
    return "".join(c if c.isprintable() or c in kept else " " if c in blank else "\ufffd" for c in text)
