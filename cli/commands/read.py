"""`headwater read`: prints the records of a topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from ..options import ProjectOptions, WholeNumber, format_option, whole_project_options
from ..printing import tables
from ..printing.findings import warn, warn_of_rebuild
from ..printing.tables import cell, note_cut, time_text
from ..printing.terminal import WARNING, print_line, print_styled

if TYPE_CHECKING:
    from ...runtime.records.record_json import Record

_PAGE = 200
"""Rows of a table that share their column widths. The next rows form a table of their own."""


@click.command()
@whole_project_options
@click.argument("topic")
@click.option("--from", "start", type=WholeNumber(0), help="The first offset, in each partition.")
@click.option("--limit", type=WholeNumber(1), help="The most records.")
@click.option("--follow", "-f", is_flag=True, help="Wait for more, until Ctrl-C.")
@format_option("table", "json", default="table")
def command(
    options: ProjectOptions,
    topic: str,
    start: int | None,
    limit: int | None,
    follow: bool,
    style: str,
) -> None:
    """Print the records of a topic.

    Committed records only: each partition in its order, partitions by time.

    With --format json, one object a line: the input of a seed with `format: records` and of `seed --append`.
    """
    project = options.project()
    records = project.read(topic, start=start, limit=limit, follow=follow)
    warn(project)
    warn_of_rebuild(topic, project.recomputation(topic))
    if (otherwise := project.declared_otherwise(topic)) is not None:
        print_styled(
            WARNING, f"{topic} is shown as it was declared when its records were written: {otherwise}", err=True
        )
    try:
        if style == "json":
            for record in records:
                click.echo(record.to_json())
        else:
            _tables(records, 1 if follow else _PAGE)
    except KeyboardInterrupt:
        if not follow:
            raise


def _tables(records: Iterable[Record], page: int) -> None:
    rest = iter(records)
    first, cut = True, False
    while rows := list(islice(rest, page)):
        cut |= tables.show(
            ("partition", "offset", "timestamp", "key", "value"),
            [
                (
                    str(record.partition),
                    str(record.offset),
                    time_text(record.timestamp),
                    _short(record.key),
                    _short(record.value),
                )
                for record in rows
            ],
            right=(0, 1),
            headed=first,
        )
        first = False
    if first:
        print_line("no records")
    if cut:
        note_cut()


def _short(columns: Mapping[str, Any] | None) -> str:
    """`name=value` for each column; `null` for a null key or value."""
    if columns is None:
        return "null"
    return " ".join(f"{name}={cell(name, value)}" for name, value in columns.items())
