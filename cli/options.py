"""The options that every command on a project takes, and what they come to."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ..project import Project


@dataclass(frozen=True)
class ProjectOptions:
    """Which project, for which target, with which variables; `select` narrows a command to a part of it."""

    directory: Path = Path()
    profile: str | None = None
    target: str | None = None
    vars: Mapping[str, Any] = field(default_factory=dict)
    select: tuple[str, ...] = ()
    without_plugins: tuple[str, ...] = ()

    def project(self) -> Project:
        """The project. Here, and not before, the compiler is imported."""
        from ..project import Project

        return Project.load(
            self.directory,
            profile=self.profile,
            target=self.target,
            vars=self.vars,
            select=self.select,
            without_plugins=self.without_plugins,
        )


class Variables(click.ParamType[dict[str, Any]]):
    """A YAML or JSON mapping: `{late_minutes: 30}`, read as strictly as the files of a project."""

    name = "yaml"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, Any]:
        """The mapping; a usage error for anything else."""
        if isinstance(value, dict):
            return value
        if not value.strip():
            return {}
        from ..compiler.diagnostics import Diagnostics
        from ..compiler.reading.source import SourceFile
        from ..compiler.reading.yaml_loader import read_yaml

        found = Diagnostics()
        read = read_yaml(SourceFile("--vars", value), found)
        for each in found:
            self.fail(f"{each.message.rstrip('.')} ({each.code})" + (f": {each.hint}" if each.hint else ""), param, ctx)
        variables = read.to_python() if read is not None else None
        if not isinstance(variables, dict):
            self.fail("give a mapping of names to values, such as '{late_minutes: 30}'", param, ctx)
        return variables


class PluginSwitch(click.ParamType[str]):
    """`no:<name>`: leave that plugin out."""

    name = "no:name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The plugin's name."""
        word, _, name = str(value).partition(":")
        if word != "no" or not name:
            self.fail(f"{value!r} is not of the form no:<name>; plugins are added in headwater.yml", param, ctx)
        return name


_OPTIONS = (
    click.option(
        "--project-dir",
        "directory",
        type=click.Path(path_type=Path, file_okay=False),
        default=".",
        envvar="HEADWATER_PROJECT_DIR",
        help="The project's folder (here, if not given; or HEADWATER_PROJECT_DIR).",
    ),
    click.option("--profile", metavar="NAME", help="The profile of profiles.yml, instead of headwater.yml's."),
    click.option("--target", metavar="NAME", help="The target of the profile, instead of its default."),
    click.option("--vars", type=Variables(), default="", help="Variables, over headwater.yml's: '{name: value}'."),
    click.option(
        "-s",
        "--select",
        multiple=True,
        metavar="SELECTOR",
        help="Only this topology or topic, tag:x or path:dir; + before it adds what feeds it, + behind what it feeds.",
    ),
    click.option(
        "-p", "without_plugins", type=PluginSwitch(), multiple=True, help="Leave a plugin out; can be repeated."
    ),
)


def project_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a project; its first argument is the ProjectOptions they make."""

    @functools.wraps(command)
    def with_options(**given: Any) -> Any:
        names = ("directory", "profile", "target", "vars", "select", "without_plugins")
        return command(ProjectOptions(**{name: given.pop(name) for name in names}), **given)

    wrapped: Callable[..., Any] = with_options
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


def format_option(*choices: str, default: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The `--format` option with these choices."""
    return click.option(
        "--format", "style", type=click.Choice(choices), default=default, show_default=True, help="How to print."
    )
