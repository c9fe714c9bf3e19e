"""`headwater query`: prints the rows of a store, also while its topology runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from ...readable_text import counted, json_text
from ...runtime.environment import duration_text
from ..options import TIME, Parsed, ProjectOptions, WholeNumber, format_option, whole_project_options
from ..printing import tables
from ..printing.findings import warn, warn_of_rebuild
from ..printing.tables import cell as _cell
from ..printing.tables import note_cut, time_text
from ..printing.terminal import WARNING, print_line, print_styled

if TYPE_CHECKING:
    from ...api.project import Project
    from ...runtime.query.rows import Row


def _key_column(text: str) -> tuple[str, str]:
    """A pair from `column=value`."""
    column, equals, value = text.partition("=")
    if not equals or not column:
        raise ValueError(f"{text!r} is not of the form column=value")
    return column, value


@click.command()
@whole_project_options
@click.argument("store")
@click.option(
    "-k",
    "--key",
    "key",
    type=Parsed("column=value", _key_column),
    multiple=True,
    help="Rows of this key; once for each column.",
)
@click.option("--from", "start", type=TIME, help="Windows that start at this time or later.")
@click.option("--to", "end", type=TIME, help="Windows that start before this time.")
@click.option("--limit", type=WholeNumber(1), help="The most rows.")
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

    STORE, or TOPOLOGY.STORE. Rows are those of the last commit, also while the topology runs.
    """
    project = options.project()
    rows = islice(project.query(store, key=dict(key) or None, start=start, end=end), limit)
    warn(project)
    if (otherwise := project.store_declared_otherwise(store)) is not None:
        print_styled(
            WARNING, f"{store} is shown with the declaration of its rows, before the next run: {otherwise}", err=True
        )
    warn_of_rebuild(store, project.store_recomputation(store))
    if style == "json":
        for row in rows:
            click.echo(json_text({"key": row.key, "value": row.value, "timestamp": row.timestamp}))
        return
    shown = list(rows)
    if not shown:
        print_line("no rows")
        _explain_no_rows(project, store, dict(key), bounded=start is not None or end is not None)
        return
    header = [*shown[0].key, *shown[0].value, "timestamp"]
    cells = [
        [_cell(name, value) for name, value in (*row.key.items(), *row.value.items())] + [time_text(row.timestamp)]
        for row in shown
    ]
    numbers = [n for n, value in enumerate([*shown[0].key.values(), *shown[0].value.values()]) if _number(value)]
    if tables.show(header, cells, right=numbers):
        note_cut()


def _explain_no_rows(project: Project, store: str, key: Mapping[str, str], *, bounded: bool) -> None:
    """Print what the store has if a query finds nothing: rows of the key, rows in total, and their windows."""
    kept = project.store_retention(store)
    if kept is not None:
        text = f"{store} keeps rows for {duration_text(kept)} of stream time; older ones have expired"
        click.echo(text, err=True)
    if bounded and key:
        print_line(f"rows of this key: {_content(project.query(store, key=key))}", err=True)
    if bounded or key:
        print_line(f"rows of all keys: {_content(project.query(store))}", err=True)


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
