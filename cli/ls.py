"""`headwater ls`: lists the topics, topologies, tables, stores and flows of a project."""

from __future__ import annotations

import json
import os

import click

from . import tables
from .findings import warn
from .options import ProjectOptions, format_option, project_options

_KINDS = ("topic", "topology", "table", "store", "flow")


@click.command()
@project_options
@click.option("--type", "kinds", type=click.Choice(_KINDS), multiple=True, help="Only resources of this type.")
@format_option("text", "json", default="text")
def command(options: ProjectOptions, kinds: tuple[str, ...], style: str) -> None:
    """List what is in the project."""
    project = options.project()
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
        click.echo(json.dumps(listed, indent=2, ensure_ascii=False))
        return
    rows = []
    base = os.path.relpath(project.root)
    for each in found:
        name = f"{each.topology}.{each.name}" if each.topology else each.name
        file = os.path.normpath(os.path.join(base, each.file))
        place = file if each.line is None else f"{file}:{each.line}"
        rows.append((each.kind, name, f"{place} (not declared)" if each.implicit else place))
    tables.show(("type", "name", "place"), rows, headed=False)
