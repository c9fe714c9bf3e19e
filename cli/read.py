"""`headwater read`: the records of a topic."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import click

from . import tables
from .options import ProjectOptions, format_option, project_options

_PAGE = 200
"""Rows of a table that share their column widths; what follows is a table of its own."""


@click.command()
@project_options
@click.argument("topic")
@click.option("--from", "start", type=click.IntRange(0), default=0, help="First offset in each partition.")
@click.option("--partition", type=click.IntRange(0), help="Only this partition.")
@click.option("--limit", type=click.IntRange(1), help="At most so many records.")
@click.option("--follow", "-f", is_flag=True, help="Wait for more, until Ctrl-C.")
@format_option("table", "json", default="table")
def command(
    options: ProjectOptions,
    topic: str,
    start: int,
    partition: int | None,
    limit: int | None,
    follow: bool,
    style: str,
) -> None:
    """Print the committed records of TOPIC, partition by partition.

    With --format json, one object a line: what a seed with `format: records` and `seed --append` read.
    """
    records = options.project().read(topic, start=start, partition=partition, limit=limit, follow=follow)
    try:
        if style == "json":
            for record in records:
                click.echo(json.dumps(record, ensure_ascii=False))
        else:
            _tables(records, 1 if follow else _PAGE)
    except KeyboardInterrupt:
        if not follow:
            raise


def _tables(records: Iterator[Mapping[str, Any]], page: int) -> None:
    rest = iter(records)
    first = True
    while rows := list(islice(rest, page)):
        shown = tables.text(
            ("partition", "offset", "timestamp", "key", "value"),
            [
                (
                    str(record["partition"]),
                    str(record["offset"]),
                    _time(record["timestamp"]),
                    _short(record["key"]),
                    _short(record["value"]),
                )
                for record in rows
            ],
            right=(0, 1),
        )
        click.echo(shown if first else shown.partition("\n")[2])
        first = False
    if first:
        click.echo("no records")


def _time(milliseconds: int) -> str:
    from datetime import UTC, datetime, timedelta

    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return str(milliseconds)
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{moment.microsecond // 1000:03d}"


def _short(columns: Mapping[str, Any] | None) -> str:
    """`name=value` for each column; `null` for a null key or value."""
    if columns is None:
        return "null"
    return " ".join(f"{name}={_cell(name, value)}" for name, value in columns.items())


def _cell(name: str, value: Any) -> str:
    if name in ("window_start", "window_end") and isinstance(value, int):
        return _time(value).removesuffix(".000").replace(" ", "T")
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
