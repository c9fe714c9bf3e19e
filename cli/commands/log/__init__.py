"""`headwater log`: commands that look after the log itself, each in the module of its name."""

from __future__ import annotations

from importlib import import_module

import click

from ...options import LeadingOptions, whole_leading_options

COMMANDS = ("ls", "verify", "repair", "clean", "copy")
"""In the order in which they are listed. Each is `command` in the module of its name."""


class LogCommands(LeadingOptions):
    """Imports a command when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        """All of them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's
        """The command, or None if no command has that name."""
        if cmd_name not in COMMANDS:
            return None
        found: click.Command = import_module(f".{cmd_name}", __package__).command
        return found


@click.group("log", cls=LogCommands)
@whole_leading_options
def command(**_: object) -> None:
    """Look after the log: what is in it, whether it is whole, how to go on if it is not, and clean it."""
