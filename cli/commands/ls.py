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
from ..printing.terminal import print_line

if TYPE_CHECKING:
    from ...api.project import Project
    from ...runtime.changes.plan import Orphan

_KINDS = ("topic", "topology", "table", "store", "flow")


@click.command()
@project_options
@click.option("--type", "kinds", type=click.Choice(_KINDS), multiple=True, help="Only resources of this type.")
@click.option("--orphans", is_flag=True, help="Applications in the log without a topology in the project.")
@format_option("text", "json", default="text")
def command(options: ProjectOptions, kinds: tuple[str, ...], orphans: bool, style: str) -> None:
    """List the project's resources, or with --orphans applications that only the log has."""
    if orphans and kinds:
        raise click.UsageError("--orphans lists applications, which have no --type")
    project = options.project()
    if orphans:
        _orphans(project, style)
        return
    resources = [resource for resource in project.resources() if not kinds or resource.kind in kinds]
    warn(project)
    if style == "json":
        listed = [
            {
                "type": resource.kind,
                "name": resource.name,
                "topology": resource.topology,
                "file": resource.file,
                "line": resource.line,
                "implicit": resource.implicit,
                "description": resource.description,
                "tags": list(resource.tags),
                "parents": list(resource.parents),
            }
            for resource in resources
        ]
        click.echo(json_text(listed, indent=2))
        return
    rows = []
    base = os.path.relpath(project.root)
    for resource in resources:
        name = f"{resource.topology}.{resource.name}" if resource.topology else resource.name
        file = os.path.normpath(os.path.join(base, resource.file))
        place = file if resource.line is None else f"{file}:{resource.line}"
        rows.append((resource.kind, name, f"{place} (not declared)" if resource.implicit else place))
    tables.show(("type", "name", "place"), rows, headed=False)


def _orphans(project: Project, style: str) -> None:
    orphans = project.orphans()
    if style == "json":
        click.echo(json_text([asdict(orphan) for orphan in orphans], indent=2))
    elif not orphans:
        print_line("each application in the log has its topology in the project")
    else:
        header = ("application", "records", "size", "last commit", "new name?")
        tables.show(header, [_orphan_row(orphan) for orphan in orphans], right=(1, 2))
    warn(project)


def _orphan_row(orphan: Orphan) -> list[str]:
    last = orphan.committed_at
    at = "" if last is None else time_text(last - last % 1000)
    records, size = orphan.records or 0, orphan.bytes or 0
    return [orphan.application, f"{records:,}", size_text(size), at, orphan.renamed or ""]
