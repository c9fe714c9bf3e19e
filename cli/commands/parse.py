"""`headwater parse`: checks everything that needs no Spark."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from ...readable_text import counted
from ..options import ProjectOptions, format_option, whole_project_options
from ..printing.findings import print_diagnostics

if TYPE_CHECKING:
    from ...compiler.outcomes import Parsed


@click.command()
@whole_project_options
@format_option("text", "json", "github", default="text")
def command(options: ProjectOptions, style: str) -> None:
    """Check the project's files, without Java.

    Types of expressions are checked by `compile`.
    """
    parsed = options.project().parse()
    print_diagnostics(parsed.diagnostics, parsed.sources, parsed.root, style)
    if style == "text" and parsed.ok:
        click.echo(_summary(parsed))
    raise SystemExit(0 if parsed.ok else 1)


def _summary(parsed: Parsed) -> str:
    """`flights: 12 topics, 4 topologies, 9 flows; target local`."""
    counts = Counter[str](resource.kind for resource in parsed.resources)
    plurals = {"topic": "topics", "topology": "topologies", "flow": "flows"}
    listed = ", ".join(counted(counts[kind], kind, plural) for kind, plural in plurals.items())
    return f"{parsed.root.name}: {listed}; profile {parsed.profile_name}, target {parsed.target_name}"
