"""`headwater query`: prints the rows of a store, even while its topology runs."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import click

from ..moments import Moment
from ..options import ProjectOptions, WholeNumber, format_option, whole_project_options
from ..printing import tables
from ..printing.cells import cell as _cell
from ..printing.cells import time_text
from ..printing.findings import tell_recomputed, warn
from ..printing.tables import note_cut
from ..printing.terminal import WARNING, say


class KeyColumn(click.ParamType[tuple[str, str]]):
    """`column=value`."""

    name = "column=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """The pair."""
        column, equals, text = str(value).partition("=")
        if not equals or not column:
            self.fail(f"{value!r} is not of the form column=value", param, ctx)
        return column, text


@click.command()
@whole_project_options
@click.argument("store")
@click.option("-k", "--key", "key", type=KeyColumn(), multiple=True, help="Of this key: one for each key column.")
@click.option("--from", "start", type=Moment(), help="Windows that start at this time or later.")
@click.option("--to", "end", type=Moment(), help="Windows that start before this time.")
@click.option("--limit", type=WholeNumber(1), help="At most so many rows.")
@format_option("table", "json", default="table")
def command(
    options: ProjectOptions,
    store: str,
    key: tuple[tuple[str, str], ...],
    start: int | None,
    end: int | None,
    limit: int | None,
    style: str,
) -> None:
    """Print the rows of a store.

    STORE, or TOPOLOGY.STORE. Rows are those of the last commit, even while the topology runs.
    """
    project = options.project()
    rows = islice(project.query(store, key=dict(key) or None, start=start, end=end), limit)
    warn(project)
    if (otherwise := project.store_declared_otherwise(store)) is not None:
        say(WARNING, f"{store} is shown as its rows were written, before the next run: {otherwise}", err=True)
    tell_recomputed(store, project.store_recomputation(store))
    if style == "json":
        for row in rows:
            click.echo(json.dumps({"key": row.key, "value": row.value, "timestamp": row.timestamp}, ensure_ascii=False))
        return
    found = list(rows)
    if not found:
        click.echo("no rows")
        return
    header = [*found[0].key, *found[0].value, "timestamp"]
    cells = [
        [_cell(name, value) for name, value in (*row.key.items(), *row.value.items())] + [time_text(row.timestamp)]
        for row in found
    ]
    numbers = [n for n, value in enumerate([*found[0].key.values(), *found[0].value.values()]) if _number(value)]
    if tables.show(header, cells, right=numbers):
        note_cut()


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
