"""Options shared by commands, and their positions on the command line."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import HeadwaterError
from ..runtime.environment import PROJECT_DIR
from ..suggestions import did_you_mean, guess
from .printing.findings import warn_of_unread
from .printing.terminal import print_line

if TYPE_CHECKING:
    from ..api.project import Project


# The options of every command on a project.

_PROJECT_FILES = ("headwater.yml", "headwater.yaml")


class NoProjectError(HeadwaterError):
    """Neither the folder `start` nor a folder above it has a project."""

    def __init__(self, start: Path) -> None:
        hint = did_you_mean(_PROJECT_FILES[0], os.listdir(start), likeness=0.8)
        super().__init__(
            f"there is no headwater.yml in {start}, nor in a folder above it",
            hint or "go to a project's folder or name it with --project-dir; `headwater init` starts a project",
        )
        self.start = start


def find_project(start: Path) -> Path:
    """The nearest folder with a project file: `start` or one above it. Raises NoProjectError."""
    for folder in (start, *start.parents):
        if any(os.path.lexists(folder / name) for name in _PROJECT_FILES):
            return folder
    raise NoProjectError(start)


@dataclass(frozen=True)
class ProjectOptions:
    """The project, its target and variables. `select` limits a command to a part of the project.

    If `directory` is None, the project is that of the current folder or of the nearest folder above it.
    """

    directory: Path | None = None
    profile: str | None = None
    target: str | None = None
    vars: Mapping[str, Any] = field(default_factory=dict)
    select: tuple[str, ...] = ()
    without_plugins: tuple[str, ...] = ()

    def project(self) -> Project:
        """The project. If it was found in a folder above the current one, a line on stderr names that folder.

        Raises NoProjectError. The compiler is imported here, not before.
        """
        directory = self._directory()
        from ..api.project import Project

        project = Project.load(
            directory,
            profile=self.profile,
            target=self.target,
            vars=self.vars,
            select=self.select,
            without_plugins=self.without_plugins,
        )
        project.spark_starts = lambda line: print_line(line, err=True)
        return project

    def warned_project(self) -> Project:
        """The project, after warnings of options and environment variables of this call that nothing uses."""
        project = self.project()
        warn_of_unread(project)
        return project

    def _directory(self) -> Path:
        if self.directory is not None:
            if not self.directory.is_dir():
                raise click.BadParameter(f"there is no folder {self.directory}", param_hint="--project-dir")
            return self.directory
        here = Path.cwd()
        root = find_project(here)
        if root != here:
            print_line(f"using the project in {root}", err=True)
        return root


class WholeNumber(click.IntRange):
    """A whole number, from `min` on or within bounds."""

    name = "whole number"


class Parsed(click.ParamType[Any]):
    """A value that `parse` reads from text. Its ValueError is a usage error. `name`: in the help."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value."""
        if not isinstance(value, str):  # a default
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _variables(text: str) -> dict[str, Any]:
    """A YAML or JSON mapping: `{late_minutes: 30}`. It is parsed as strictly as a project's files."""
    if not text.strip():
        return {}
    from ..compiler.diagnostics import Diagnostics
    from ..compiler.reading.source import SourceFile
    from ..compiler.reading.yaml_loader import read_yaml

    diagnostics = Diagnostics()
    node = read_yaml(SourceFile("--vars", text), diagnostics)
    for diagnostic in diagnostics:
        hint = f": {diagnostic.hint}" if diagnostic.hint else ""
        raise ValueError(f"{diagnostic.message.rstrip('.')} ({diagnostic.code}){hint}")
    variables = node.to_python() if node is not None else None
    if not isinstance(variables, dict):
        raise ValueError("give a mapping of names to values, such as '{late_minutes: 30}'")
    return variables


_VARIABLES = Parsed("yaml", _variables)


def _disabled_plugin(text: str) -> str:
    """The name in `no:<name>`."""
    word, _, name = text.partition(":")
    if word != "no" or not name:
        raise ValueError(f"{text!r} is not of the form no:<name>; plugins are added in headwater.yml")
    return name


def milliseconds(text: str) -> int:
    """Milliseconds since 1970, from their number or an ISO 8601 time, in UTC if it has no zone. Raises ValueError."""
    if re.fullmatch("-?[0-9]{1,18}", text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is neither milliseconds nor a time such as 2024-05-01T08:00:00Z") from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


TIME = Parsed("time", milliseconds)
"""A time on a command line, in ms since 1970."""


_SELECT = click.option(
    "-s",
    "--select",
    multiple=True,
    metavar="SELECTOR",
    help="Only this topology or topic, tag:x or path:dir; a leading + adds what feeds it, a trailing + what it feeds.",
)

_OPTIONS = (
    click.option(
        "--project-dir",
        "directory",
        type=click.Path(path_type=Path, file_okay=False),
        envvar=PROJECT_DIR,
        help=f"The project's folder, or {PROJECT_DIR}; default: this folder or the nearest above it.",
    ),
    click.option("--profile", metavar="NAME", help="The profile of profiles.yml, instead of headwater.yml's."),
    click.option("--target", metavar="NAME", help="The target of the profile, instead of its default."),
    click.option("--vars", type=_VARIABLES, default="", help="Variables, over headwater.yml's: '{name: value}'."),
    _SELECT,
    click.option(
        "-p",
        "without_plugins",
        type=Parsed("no:name", _disabled_plugin),
        metavar="no:NAME",
        multiple=True,
        help="Disable a plugin; can be repeated.",
    ),
)


NAMES = ("directory", "profile", "target", "vars", "select", "without_plugins")
"""The project's options as names of parameters."""


def project_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a project. Its first argument becomes the ProjectOptions built from them."""
    return _with(_OPTIONS, command)


def whole_project_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same without `--select`, for a command that always works on the whole project."""
    return _with([option for option in _OPTIONS if option is not _SELECT], command)


def _with(options: Sequence[Callable[..., Any]], command: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(command)
    def with_options(**given: Any) -> Any:
        return command(ProjectOptions(**{name: given.pop(name) for name in NAMES if name in given}), **given)

    return _take(options, with_options)


def leading_options(group: Callable[..., Any]) -> Callable[..., Any]:
    """Give a group of commands the same options, to stand before the command."""
    return _take(_OPTIONS, group)


def whole_leading_options(group: Callable[..., Any]) -> Callable[..., Any]:
    """The same for a group whose commands work on the whole project: `--select` is only parsed to be rejected."""
    hidden = click.option("-s", "--select", multiple=True, hidden=True)
    return _take([hidden if option is _SELECT else option for option in _OPTIONS], group)


def _take(options: Sequence[Callable[..., Any]], taker: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(options):
        taker = option(taker)
    return taker


def format_option(*choices: str, default: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The `--format` option with these choices."""
    return click.option(
        "--format", "style", type=click.Choice(choices), default=default, show_default=True, help="How to print."
    )


engine_option: Callable[..., Any] = click.option(
    "--engine",
    type=click.Choice(["spark", "task"]),
    help="What computes expressions, over the profile: the task, as far as it can, or Spark SQL.",
)

continue_option: Callable[..., Any] = click.option(
    "--continue",
    "go_on",
    is_flag=True,
    help="Rebuild no result for a change that may count from the next record on.",
)


# Groups of commands that accept a project's options before the command as well as after it.


class LeadingOptions(click.Group):
    """`headwater -s sales run` is `headwater run -s sales`. The group gets the options from `leading_options`.

    `names`: its commands, in the order of the list in help. The command `x` is the attribute `command` of the module
    `x` in `package`, which is imported when the command is used.
    """

    names: tuple[str, ...]
    package: str

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        """All of them."""
        return list(self.names)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's
        """The command, or None if no command has that name."""
        if cmd_name not in self.names:
            return None
        command: click.Command = import_module(f"{self.package}.{cmd_name}").command
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does; keeps the options before the command for `resolve_command`."""
        given, _, _ = self.make_parser(ctx).parse_args(list(args))
        ctx.meta[self._key] = {name: given[name] for name in NAMES if name in given}
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command and its arguments, after the options that stood before it: of two values the later one counts."""
        if not ctx.resilient_parsing and args[0][:1] != "-" and self.get_command(ctx, args[0]) is None:
            more = f"`{_named(ctx)} --help` lists the commands."
            hint = guess(args[0], self.list_commands(ctx), more)
            raise click.UsageError(f"There is no command {args[0]!r}; {hint}", ctx)
        name, command, rest = super().resolve_command(ctx, args)
        return name, command, rest if command is None else [*self._moved(ctx, name, command), *rest]

    def _moved(self, ctx: click.Context, name: str | None, command: click.Command) -> Iterator[str]:
        taken = {name for parameter in command.params for name in parameter.opts}
        for parameter in self.params:
            values = ctx.meta[self._key].get(parameter.name, ())
            option = parameter.opts[-1]
            if values and option not in taken and parameter.name != "without_plugins":  # the group itself uses that one
                raise click.UsageError(f"The command {name!r} has no option {option!r}.", ctx)
            for value in [values] if isinstance(values, str) else values:
                yield from (option, value) if option in taken else ()

    @property
    def _key(self) -> str:
        """The key for the options in `meta` of a context, which nested groups share."""
        return f"{__name__}.{self.name}"


def _named(ctx: click.Context) -> str:
    """`headwater` or `headwater log`, whatever the program's name is."""
    inner = ctx.command_path.split()[1:]
    return " ".join(("headwater", *inner))
