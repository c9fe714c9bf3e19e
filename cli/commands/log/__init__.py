"""`headwater log`: commands for the log itself. The module `x` defines `headwater log x`."""

from __future__ import annotations

from importlib import import_module

import click

from ...options import LeadingOptions, whole_leading_options

COMMANDS = ("ls", "verify", "repair", "clean", "copy")
"""In the order of the list in help. The command `x` is the attribute `command` of the module `x`."""


class LogCommands(LeadingOptions):
    """Imports a command when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        """All of them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's
        """The command, or None if no command has that name."""
        if cmd_name not in COMMANDS:
            return None
        command_: click.Command = import_module(f".{cmd_name}", __package__).command
        return command_


@click.group("log", cls=LogCommands)
@whole_leading_options
def command(**_: object) -> None:
    """List, verify, repair, clean and copy the log."""
