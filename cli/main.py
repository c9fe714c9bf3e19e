"""The `headwater` command: finds a subcommand by name and imports it. Prints every error that a command raises."""

from __future__ import annotations

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    # `python -m` puts the current folder first on sys.path: a project's file would shadow a package of the same name.
    del sys.path[0]

import atexit
import faulthandler
import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

import click

from ..errors import INTERRUPTED, HeadwaterError, MachineError
from ..readable_text import readable_traceback
from ..version import __version__
from .options import LeadingOptions, leading_options
from .printing.findings import print_diagnostics
from .printing.terminal import ERROR, leave_standard_output, name_standard_output, print_styled

COMMANDS = (
    "init",
    "parse",
    "compile",
    "describe",
    "plan",
    "test",
    "seed",
    "run",
    "build",
    "read",
    "retry",
    "query",
    "tasks",
    "pause",
    "resume",
    "reset",
    "rewind",
    "remove",
    "assign",
    "simulate",
    "ls",
    "log",
    "kafka",
    "clean",
    "debug",
)
"""The built-in commands, in the order in which a new project needs them."""

_GC_THRESHOLD = 50_000
"""The garbage collector runs after so many new objects. A command imports a thousand modules whose objects all stay:
collecting after every 700 new objects, as Python does, takes up to a tenth of a short command's time.
"""


@contextmanager
def _without_last_collection() -> Iterator[None]:
    """Let Python exit without its last garbage collection, which takes a fifth of a short command's time.

    After an error it is needed: the traceback may hold an open reader, which must be closed before its threads end.
    """
    try:
        yield
    except (SystemExit, click.exceptions.Exit) as exit_:
        if exit_.__cause__ is None:  # an exit code, not an error
            atexit.register(gc.freeze)
        raise
    atexit.register(gc.freeze)


class Failure(click.ClickException):
    """An error as click prints it: the message, its hint, its exit code; for a wrong command line the usage first."""

    def __init__(self, message: str, hint: str | None, exit_code: int, usage: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        self.usage = usage
        setattr(self, "exit_code", exit_code)  # noqa: B010 - of the class, as click declares it

    @classmethod
    def of(cls, error: HeadwaterError) -> Failure:
        """An error of Headwater."""
        return cls(error.message, error.hint, error.exit_code)

    def show(self, file: IO[Any] | None = None) -> None:  # noqa: ARG002 - click's
        """Print to stderr."""
        if self.usage is not None:
            click.echo(self.usage, err=True)
        print_styled(ERROR, self.message, err=True)
        if self.hint:
            print_styled(("  hint: ", "bold"), self.hint, err=True)


class Commands(LeadingOptions):
    """The built-in commands, then those of plugins."""

    names = COMMANDS
    package = f"{__package__}.commands"

    def main(self, *args: Any, **extra: Any) -> Any:
        """As click does, but errors of standard output name it."""
        name_standard_output()
        return super().main(*args, **extra)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """As click does, but errors in options before the command, and of printing help, look like all other errors."""
        with _usage_errors(), _machine_errors():
            return super().make_context(info_name, args, parent, **extra)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Built-in commands, then those of plugins by name."""
        return [*COMMANDS, *sorted(_plugin_commands(ctx).keys() - set(COMMANDS))]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, or None if no command has that name."""
        return super().get_command(ctx, cmd_name) or _plugin_commands(ctx).get(cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command.

        Errors of Headwater and of the machine become a sentence; any other error keeps its traceback.

        Errors in the project's files are printed as `parse` prints them.
        """
        gc.set_threshold(_GC_THRESHOLD)
        if not faulthandler.is_enabled() and sys.__stderr__ is not None:
            faulthandler.enable(sys.__stderr__)  # a crash in a project's function prints its lines
        try:
            with _usage_errors(), _machine_errors(), _without_last_collection():
                return super().invoke(ctx)
        except HeadwaterError as error:
            # Imported here: help, and `assign` outside a project, do not load the compiler.
            from ..compiler.outcomes import InvalidProjectError

            if isinstance(error, InvalidProjectError):
                print_diagnostics(error.found.diagnostics, error.found.sources, error.found.root, "text")
                raise SystemExit(error.exit_code) from error
            raise Failure.of(error) from error
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            raise SystemExit(INTERRUPTED) from None
        except Exception:
            sys.excepthook = readable_traceback
            raise


@contextmanager
def _usage_errors() -> Iterator[None]:
    """Raise click's usage errors as Failure."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        context = error.ctx
        hint, usage = (f"see `{context.command_path} --help`", context.get_usage()) if context else (None, None)
        raise Failure(error.format_message(), hint, error.exit_code, usage) from error


@contextmanager
def _machine_errors() -> Iterator[None]:
    """Raise errors of the machine as Failure. Other OS errors may be bugs, and keep their traceback."""
    try:
        yield
    except (OSError, MemoryError) as error:
        if isinstance(error, OSError) and not MachineError.explains(error):
            raise
        leave_standard_output(error)
        raise Failure.of(MachineError.from_error(error)) from error


def _plugin_commands(ctx: click.Context) -> Mapping[str, click.Command]:
    """Commands of installed plugins. Those of a project's plugins are not included: the project is not known here."""
    from ..plugins.manager import PluginManager

    try:
        return PluginManager(block=ctx.params.get("without_plugins") or ()).commands
    except HeadwaterError as error:
        # Help is printed while arguments are parsed, before `invoke`.
        raise Failure.of(error) from error


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@leading_options
@click.version_option(__version__, prog_name="headwater")
def main(**_: object) -> None:
    """Declare stream processing in YAML, compile it to PySpark, run it with durable state.

    A project is a folder with headwater.yml, profiles.yml, topics/ and topologies/; `headwater init` creates one.
    Commands use the project of the current folder or of the nearest folder above it. Project options stand before or
    after the command.
    """


if __name__ == "__main__":
    main()
