"""`headwater ls`: lists the topics, topologies, tables, stores and flows of a project."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ...readable_text import json_text
from ..options import ProjectOptions, format_option, project_options
from ..printing import tables
from ..printing.findings import warn
from ..printing.tables import size_text, time_text
from ..printing.terminal import tell

if TYPE_CHECKING:
    from ...api.project import Project
    from ...runtime.changes.plan import Orphan

_KINDS = ("topic", "topology", "table", "store", "flow")


@click.command()
@project_options
@click.option("--type", "kinds", type=click.Choice(_KINDS), multiple=True, help="Only resources of this type.")
@click.option("--orphans", is_flag=True, help="Applications in the log that no topology of the project owns.")
@format_option("text", "json", default="text")
def command(options: ProjectOptions, kinds: tuple[str, ...], orphans: bool, style: str) -> None:
    """List what is in the project, or with --orphans what only the log has."""
    if orphans and kinds:
        raise click.UsageError("--orphans lists applications, which have no --type")
    project = options.project()
    if orphans:
        _orphans(project, style)
        return
    found = [each for each in project.resources() if not kinds or each.kind in kinds]
    warn(project)
    if style == "json":
        listed = [
            {
                "type": each.kind,
                "name": each.name,
                "topology": each.topology,
                "file": each.file,
                "line": each.line,
                "implicit": each.implicit,
                "description": each.description,
                "tags": list(each.tags),
                "parents": list(each.parents),
            }
            for each in found
        ]
        click.echo(json_text(listed, indent=2))
        return
    rows = []
    base = os.path.relpath(project.root)
    for each in found:
        name = f"{each.topology}.{each.name}" if each.topology else each.name
        file = os.path.normpath(os.path.join(base, each.file))
        place = file if each.line is None else f"{file}:{each.line}"
        rows.append((each.kind, name, f"{place} (not declared)" if each.implicit else place))
    tables.show(("type", "name", "place"), rows, headed=False)


def _orphans(project: Project, style: str) -> None:
    found = project.orphans()
    if style == "json":
        click.echo(json_text([asdict(each) for each in found], indent=2))
    elif not found:
        tell("each application in the log has its topology in the project")
    else:
        header = ("application", "records", "size", "last commit", "new name?")
        tables.show(header, [_orphan_row(each) for each in found], right=(1, 2))
    warn(project)


def _orphan_row(orphan: Orphan) -> list[str]:
    last = orphan.committed_at
    at = "" if last is None else time_text(last - last % 1000)
    records, size = orphan.records or 0, orphan.bytes or 0
    return [orphan.application, f"{records:,}", size_text(size), at, orphan.renamed or ""]
