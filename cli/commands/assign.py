"""`headwater assign`: reads clusters as JSON, and writes the assignments of an assignor."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from functools import lru_cache
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from ..given_files import InputLines
from ..options import NoProjectError, ProjectOptions, whole_project_options
from ..printing.findings import warn_of_unread

if TYPE_CHECKING:
    from ...plugins.registry import Registry
    from ...runtime.assignment.assignor import TaskAssignor

_MOST_CACHED = 64


@click.command()
@whole_project_options
@click.argument("file", type=InputLines(), default="-")
def command(options: ProjectOptions, file: BinaryIO) -> None:
    """Place the tasks of described clusters, without running anything.

    FILE, or standard input, has one case a line, as JSON. The output has one answer a line; for an invalid case it says
    what is wrong. Outside a project, only built-in and installed assignors are available.
    """
    from ...runtime.assignment.cases import run_cases

    with redirect_stdout(sys.stderr):  # a project's plugins may print; stdout is for results
        assignors = Assignors(_registry(options))
    for line in run_cases(file, assignors):
        click.echo(line)


class Assignors:
    """Makes assignors by name and options. Options are validated once, not for every case with the same options."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._checked = lru_cache(_MOST_CACHED)(self._check)

    def __call__(self, name: str, options: Mapping[str, Any]) -> TaskAssignor:
        """A new assignor. Raises UnknownPluginError, PluginOptionsError, InvalidPluginError."""
        self._checked(name, json.dumps(options, sort_keys=True))
        assignor: TaskAssignor = self._registry[name].make(options)
        return assignor

    def _check(self, name: str, options: str) -> None:
        from ...plugins.errors import PluginOptionsError

        registration = self._registry[name]
        if problems := registration.problems(json.loads(options)):
            raise PluginOptionsError(registration.kind, name, problems)


def _registry(options: ProjectOptions) -> Registry:
    """The assignors of the project, or built-in and installed ones if there is no project."""
    from ...plugins.manager import PluginManager

    try:
        project = options.project()
    except NoProjectError:
        return PluginManager(block=options.without_plugins).assignors
    warn_of_unread(project)
    return project.assignors()
