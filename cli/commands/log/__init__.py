"""`headwater log`: commands for the log itself. The module `x` defines `headwater log x`."""

from __future__ import annotations

import click

from ...options import LeadingOptions, whole_leading_options


class LogCommands(LeadingOptions):
    """The commands for the log."""

    names = ("ls", "verify", "repair", "clean", "copy")
    package = __name__


@click.group("log", cls=LogCommands)
@whole_leading_options
def command(**_: object) -> None:
    """List, verify, repair, clean and copy the log."""
