"""`headwater query`: prints the rows of a store, even while its topology runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from ...readable_text import json_text
from ...runtime.driver.event_texts import counted
from ...runtime.environment import duration_text
from ..options import Moment, ProjectOptions, WholeNumber, format_option, whole_project_options
from ..printing import tables
from ..printing.findings import tell_recomputed, warn
from ..printing.tables import cell as _cell
from ..printing.tables import note_cut, time_text
from ..printing.terminal import WARNING, say, tell

if TYPE_CHECKING:
    from ...api.project import Project
    from ...runtime.query.rows import Row


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
            click.echo(json_text({"key": row.key, "value": row.value, "timestamp": row.timestamp}))
        return
    found = list(rows)
    if not found:
        tell("no rows")
        _tell_why(project, store, dict(key), bounded=start is not None or end is not None)
        return
    header = [*found[0].key, *found[0].value, "timestamp"]
    cells = [
        [_cell(name, value) for name, value in (*row.key.items(), *row.value.items())] + [time_text(row.timestamp)]
        for row in found
    ]
    numbers = [n for n, value in enumerate([*found[0].key.values(), *found[0].value.values()]) if _number(value)]
    if tables.show(header, cells, right=numbers):
        note_cut()


def _tell_why(project: Project, store: str, key: Mapping[str, str], *, bounded: bool) -> None:
    """What a store has where a query finds nothing: how many rows, of the key and of all, and of which windows."""
    kept = project.store_retention(store)
    if kept is not None:
        said = f"{store} keeps rows for {duration_text(kept)} of stream time; older ones have expired"
        click.echo(said, err=True)
    if bounded and key:
        tell(f"of this key it has {_content(project.query(store, key=key))}", err=True)
    if bounded or key:
        tell(f"of all keys it has {_content(project.query(store))}", err=True)


def _content(rows: Iterable[Row]) -> str:
    """`12 rows, of windows that start from 2024-05-01 00:00:00 to 2024-05-03 00:00:00`."""
    count = 0
    first: int | None = None
    last: int | None = None
    for row in rows:
        count += 1
        if (start := row.key.get("window_start")) is not None:
            first, last = (start, start) if first is None or last is None else (min(first, start), max(last, start))
    windows = ""
    if first is not None and last is not None:
        windows = f", of windows that start from {time_text(first)} to {time_text(last)}"
    return f"{counted(count, 'row')}{windows}"


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
