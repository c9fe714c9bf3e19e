"""`headwater tasks`: shows the clients and tasks of running topologies."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from . import tables
from .cells import time_text
from .options import ProjectOptions, format_option, project_options
from .terminal import WARNING, console, is_terminal, say

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from ..api.project import Project
    from ..api.tasks import ApplicationTasks
    from ..runtime.driver.reports.status import TaskStatus

HEADER = ("client", "task", "role", "state", "stores", "lag", "rate", "since")
_RIGHT = (5, 6)
_WATCH_SECONDS = 1.0


@click.command()
@project_options
@click.option("--watch", is_flag=True, help="Go on, once a second, until Ctrl-C.")
@format_option("table", "json", default="table")
def command(options: ProjectOptions, watch: bool, style: str) -> None:
    """Show what clients and tasks do, of all topologies or of the selected ones.

    It reads what the driver of each has written to the log last: at most about a second ago, while it runs.
    """
    project = options.project()
    if not watch:
        _print(project.tasks(), style)
        return
    try:
        if style == "table" and is_terminal() and not console().is_dumb_terminal:
            _draw(project)
        else:
            _repeat(project, style)
    except KeyboardInterrupt:
        return


def _print(found: Sequence[ApplicationTasks], style: str, indent: int | None = 2) -> None:
    if style == "json":
        at = max((each.at for each in found), default=time.time_ns() // 1_000_000)
        shown = {"at": at, "applications": [each.to_json() for each in found]}
        click.echo(json.dumps(shown, indent=indent, ensure_ascii=False))
        return
    if not found:
        click.echo("the project has no topology")
    for number, each in enumerate(found):
        if number:
            click.echo()
        say(*([WARNING] if each.stale else []), headline(each))
        if said := paused(each):
            say(said)
        rows = [row for row, _ in task_rows(each)]
        if rows:
            tables.show(HEADER, rows, right=_RIGHT)


def _repeat(project: Project, style: str) -> None:
    while True:
        _print(project.tasks(), style, indent=None)
        if style == "table":
            click.echo()
        time.sleep(_WATCH_SECONDS)


def _draw(project: Project) -> None:
    from rich.live import Live

    with Live(Screen(project.tasks()), console=console(), screen=True, auto_refresh=False) as live:
        while True:
            live.update(Screen(project.tasks()), refresh=True)
            time.sleep(_WATCH_SECONDS)


class Screen:
    """All applications on one screen. Tasks that are on their way come first; the last line says what has no room."""

    def __init__(self, found: Sequence[ApplicationTasks]) -> None:
        self._found = found

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.table import Table
        from rich.text import Text

        room = console.height - 1
        left_out = 0
        for each in self._found:
            said = "\n".join(filter(None, (headline(each), paused(each))))
            head = Text(said, style="bold yellow" if each.stale else "bold")
            room -= len(head.wrap(console, console.width)) + 2
            yield head
            rows = sorted(task_rows(each), key=lambda row: row[1])
            shown = rows[: max(0, room)]
            left_out += len(rows) - len(shown)
            room -= len(shown)
            if shown:
                table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
                for n, name in enumerate(HEADER):
                    table.add_column(name, justify="right" if n in _RIGHT else "left", no_wrap=True)
                for cells, _ in shown:
                    table.add_row(*map(Text, cells))
                yield table
            yield Text()
        if left_out:
            yield Text(f"and {left_out:,} more task{'s' if left_out > 1 else ''}; without --watch all are shown")


def headline(each: ApplicationTasks) -> str:
    """How an application's run fares, in a sentence or two."""
    from ..runtime.driver.reports.restoring import span

    status = each.status
    if status is None:
        return f"{each.application} has not been run on this log yet: `headwater run` starts it"
    ran = f"generation {status.generation} on {status.host}"
    process = "" if status.owner is None else f", process {status.owner.pid}"
    since = span((each.at - status.written_at) / 1000)
    written = time_text(status.written_at // 1000 * 1000)
    counts = f"{status.records:,} records in {status.commits:,} commits"
    match each.condition:
        case "running":
            moving = "; tasks are on their way between clients" if status.rebalancing else ""
            return f"{each.application} has run since {_time(status.started_at)}: {ran}{process}, {counts}{moving}"
        case "gone":
            said = f"{each.application} does not run any more: its process{process.removeprefix(', process')} is gone"
        case "silent":
            if status.lives:
                said = f"{each.application} is busy: its driver{process}, is there, but writes nothing"
            else:
                said = f"{each.application} may have stopped: its driver on {status.host} writes nothing any more"
        case _:
            how = (status.ended or "").replace("_", " ")
            return f"{each.application} does not run: {how} {since} ago ({written}), {ran}, {counts}. At its end:"
    return f"{said}. What it wrote last, {since} ago ({written}):"


def paused(each: ApplicationTasks) -> str:
    """That an application is paused, or is about to be; empty if it is not."""
    if each.paused_since is None:
        return ""
    said = f"paused since {_time(each.paused_since)}; `headwater resume` ends the pause"
    working = each.condition == "running" and each.status is not None and not each.status.paused
    return f"{said}; what it has begun is not finished yet" if working else said


def task_rows(each: ApplicationTasks) -> Iterator[tuple[list[str], int]]:
    """The cells of each task and of each client without one, and a number by which those to look at come first."""
    status = each.status
    for client in () if status is None else status.clients:
        name = f"{client.name} on {client.host}" if client.host else client.name
        if not client.tasks:
            yield [name, "", "", "no tasks", "", "", "", ""], 2
        for task in client.tasks:
            stores = " ".join(store.name for store in task.stores)
            cells = [name, task.id, task.role, _state(task), stores, f"{task.lag:,}", _rate(task)]
            yield [*cells, _time(task.since)], _order(task)
    if status is not None and not status.clients and status.ended is None:
        yield ["no client", "", "", "", "", "", "", ""], 0


def _order(task: TaskStatus) -> int:
    if task.state != "running":
        return 0
    return 1 if task.role == "active" else 2


def _state(task: TaskStatus) -> str:
    from ..runtime.driver.reports.restoring import span

    if task.state != "restoring":
        return task.state
    left = task.seconds_left
    ends = "" if left is None else f", {span(left)} left"
    return f"{task.state} {100 * task.restored:.0f} %{ends}"


def _rate(task: TaskStatus) -> str:
    return f"{task.rate:,.0f}/s"


def _time(ms: int) -> str:
    return time_text(ms // 1000 * 1000)
