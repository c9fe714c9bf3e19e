"""`headwater tasks`: shows the clients and tasks of running topologies."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from ...readable_text import json_text
from ..options import ProjectOptions, format_option, project_options
from ..printing import tables
from ..printing.findings import progress_of, warn_of_call
from ..printing.tables import TASK_HEADER, TASK_RIGHT, task_cells, time_text
from ..printing.terminal import ERROR, WARNING, console, is_terminal, say, tell

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from ...api.project import Project
    from ...api.tasks import ApplicationTasks
    from ...runtime.driver.status import RunStatus, TaskStatus

HEADER = ("client", "task", "role", "state", "stores", "lag", "rate", "since")
_AT_ITS_END = 6
"""So many of these columns tell something of a run that is over."""

_MOST_REASONS = 10
"""The most lines that say why tasks do nothing."""

_RIGHT = (5, 6)
_WATCH_SECONDS = 1.0


@click.command()
@project_options
@click.option("--watch", is_flag=True, help="Go on, once a second, until Ctrl-C.")
@click.option(
    "-v", "--verbose", is_flag=True, help="Show also what each task has done, and what took most of its time."
)
@format_option("table", "json", default="table")
def command(options: ProjectOptions, watch: bool, verbose: bool, style: str) -> None:
    """Show what clients and tasks do, of all topologies or of the selected ones.

    It reads what the driver of each has written to the log last: at most about a second ago, while it runs.
    """
    project = options.project()
    warn_of_call(project)
    if not watch:
        _print(project.tasks(), style, verbose)
        return
    try:
        if style == "table" and is_terminal() and not console().is_dumb_terminal:
            _draw(project, verbose)
        else:
            _repeat(project, style, verbose)
    except KeyboardInterrupt:
        return


def _print(found: Sequence[ApplicationTasks], style: str, verbose: bool, indent: int | None = 2) -> None:
    if style == "json":
        at = max((each.at for each in found), default=time.time_ns() // 1_000_000)
        shown = {"at": at, "applications": [each.to_json() for each in found]}
        click.echo(json_text(shown, indent=indent))
        return
    if not found:
        tell("the project has no topology")
    for number, each in enumerate(found):
        if number:
            click.echo()
        first, *more = headline(each)
        say(*([WARNING] if each.stale else []), first)
        if each.status is not None and each.status.error is not None:
            error, hint = failure(each.status)
            say(ERROR, error)
            say(("  hint: ", "bold"), hint)
        for line in more:
            say(line)
        for said in filter(None, (recomputed(each), paused(each))):
            say(said)
        rows = [row for row, _ in task_rows(each)]
        if rows:
            header = _header(each)
            tables.show(header, rows, right=[n for n in _RIGHT if n < len(header)])
        for line in reasons(each):
            say(line)
        if verbose and (counted := numbers(each)):
            click.echo()
            tables.show(TASK_HEADER, counted, right=TASK_RIGHT)


def _repeat(project: Project, style: str, verbose: bool) -> None:
    while True:
        _print(project.tasks(), style, verbose, indent=None)
        if style == "table":
            click.echo()
        time.sleep(_WATCH_SECONDS)


def _draw(project: Project, verbose: bool) -> None:
    from rich.live import Live

    with Live(Screen(project.tasks(), verbose), console=console(), screen=True, auto_refresh=False) as live:
        while True:
            live.update(Screen(project.tasks(), verbose), refresh=True)
            time.sleep(_WATCH_SECONDS)


class Screen:
    """All applications on one screen. Tasks that are on their way come first; the last line says what has no room.

    `verbose`: with the numbers of the tasks in place of their states.
    """

    def __init__(self, found: Sequence[ApplicationTasks], verbose: bool = False) -> None:
        self._found = found
        self._verbose = verbose

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.table import Table
        from rich.text import Text

        room = console.height - 1
        left_out = 0
        for each in self._found:
            first, *more = headline(each)
            cause = [] if each.status is None or each.status.error is None else failure(each.status)[:1]
            said = "\n".join(filter(None, (first, *cause, *more, recomputed(each), paused(each))))
            head = Text(said, style="bold yellow" if each.stale else "bold")
            why = Text("\n".join(reasons(each)), style="yellow")
            room -= len(head.wrap(console, console.width)) + 2 + len(why.wrap(console, console.width) if why else ())
            yield head
            header, right, rows = self._table(each)
            shown = rows[: max(0, room)]
            left_out += len(rows) - len(shown)
            room -= len(shown)
            if shown:
                table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
                for n, name in enumerate(header):
                    table.add_column(name, justify="right" if n in right else "left", no_wrap=True)
                for cells in shown:
                    table.add_row(*map(Text, cells))
                yield table
            if why:
                yield why
            yield Text()
        if left_out:
            yield Text(f"and {left_out:,} more task{'s' if left_out > 1 else ''}; without --watch all are shown")

    def _table(self, each: ApplicationTasks) -> tuple[Sequence[str], Sequence[int], Sequence[Sequence[str]]]:
        if self._verbose:
            return TASK_HEADER, TASK_RIGHT, numbers(each)
        header = _header(each)
        right = [n for n in _RIGHT if n < len(header)]
        return header, right, [cells for cells, _ in sorted(task_rows(each), key=lambda row: row[1])]


def numbers(each: ApplicationTasks) -> list[list[str]]:
    """The cells of what each task has done."""
    return [] if each.status is None else list(task_cells(each.status))


def failure(status: RunStatus) -> tuple[str, str]:
    """What has ended a run, in one line, and the way on."""
    error, *_ = (status.error or "").splitlines() or [""]
    way_on = status.hint or "`headwater run` goes on from the last commit"
    return error, f"{way_on}; target/run_results.json has all of the run's results"


def headline(each: ApplicationTasks) -> list[str]:
    """How an application's run fares, in lines that fit 80 columns for most names."""
    from ...runtime.driver.event_texts import counted
    from ...runtime.driver.restoring import span

    status = each.status
    if status is None:
        return [f"{each.application} has not been run on this log yet: `headwater run` starts it"]
    process = "" if status.owner is None else f", process {status.owner.pid}"
    since = span((each.at - status.written_at) / 1000)
    written = time_text(status.written_at // 1000 * 1000)
    counts = f"{counted(status.records, 'record')} in {counted(status.commits, 'commit')}"
    match each.condition:
        case "running":
            moving = "; tasks are on their way between clients" if status.rebalancing else ""
            return [
                f"{each.application} has run since {_time(status.started_at)}",
                f"generation {status.generation} on {status.host}{process}, {counts}{moving}",
            ]
        case "gone":
            said = f"{each.application} does not run any more: its process{process.removeprefix(', process')} is gone"
        case "silent":
            if status.lives:
                said = f"{each.application} is busy: its driver{process}, is there, but writes nothing"
            else:
                said = f"{each.application} may have stopped: its driver on {status.host} writes nothing any more"
        case _:
            how = (status.ended or "").replace("_", " ")
            return [
                f"{each.application} does not run: {how} {since} ago ({written})",
                f"generation {status.generation} on {status.host}, {counts}; at its end:",
            ]
    return [said, f"what it wrote last, {since} ago ({written}):"]


def recomputed(each: ApplicationTasks) -> str:
    """That a new result is computed beside the one that the run works on; empty if none is."""
    if each.recomputation is None:
        return ""
    going_on = "" if each.recomputing else "; no run works on it now: `headwater run` goes on with it"
    return f"a new result is computed beside this one: {progress_of(each.recomputation)}{going_on}"


def paused(each: ApplicationTasks) -> str:
    """That an application is paused, or is about to be; empty if it is not."""
    if each.paused_since is None:
        return ""
    said = f"paused since {_time(each.paused_since)}; `headwater resume` ends the pause"
    working = each.condition == "running" and each.status is not None and not each.status.paused
    return f"{said}; what it has begun is not finished yet" if working else said


def reasons(each: ApplicationTasks) -> list[str]:
    """Why tasks have stopped, and for whom others wait, though they have records to take: a line for each reason."""
    from ...runtime.driver.wait_texts import stopped_at, they_wait_for

    status = each.status
    if status is None:
        return []
    lines = [f"task {task} {stopped_at(stop)}" for task, stop in status.stops.items()]
    lines += [they_wait_for(wait.tasks, wait.cause, each.application) for wait in status.waits]
    more = len(lines) - _MOST_REASONS
    return lines[:_MOST_REASONS] + ([f"and {more:,} more reasons; --format json has all"] if more > 0 else [])


def task_rows(each: ApplicationTasks) -> Iterator[tuple[list[str], int]]:
    """The cells of each task and of each client without one, and a number by which those to look at come first."""
    status = each.status
    for client in () if status is None else status.clients:
        name = f"{client.name} on {client.host}" if client.host else client.name
        if not client.tasks:
            yield [name, "", "", "no tasks", "", "", "", ""][: len(_header(each))], 2
        for task in client.tasks:
            stores = " ".join(store.name for store in task.stores)
            state = _last_state(task, each) if _is_over(each) else _state(task, each)
            cells = [name, task.id, task.role, state, stores, f"{task.lag:,}", _rate(task), _time(task.since)]
            yield cells[: len(_header(each))], _order(task, status is not None and status.stop(task) is not None)
    if status is not None and not status.clients and status.ended is None:
        yield ["no client", "", "", "", "", "", "", ""][: len(_header(each))], 0


def _is_over(each: ApplicationTasks) -> bool:
    """Whether it is known that no task runs."""
    return each.condition in ("ended", "gone")


def _header(each: ApplicationTasks) -> Sequence[str]:
    return HEADER[:_AT_ITS_END] if _is_over(each) else HEADER


def _order(task: TaskStatus, stopped: bool) -> int:
    if task.state != "running" or stopped:
        return 0
    return 1 if task.role == "active" else 2


def _state(task: TaskStatus, each: ApplicationTasks) -> str:
    from ...runtime.driver.restoring import span

    if each.status is not None and each.status.stop(task) is not None:
        return "stopped"
    if each.status is not None and each.status.waits_for(task):
        return "waiting"
    if task.state != "restoring":
        return task.state
    left = task.seconds_left
    ends = "" if left is None else f", {span(left)} left"
    return f"{task.state} {100 * task.restored:.0f} %{ends}"


def _last_state(task: TaskStatus, each: ApplicationTasks) -> str:
    """What a task did when its run ended."""
    if task.role == "active" and each.status is not None and task.id in each.status.failed_tasks:
        return "failed"
    restored = f" {100 * task.restored:.0f} %" if task.state == "restoring" else ""
    waited = each.status is not None and each.status.waits_for(task)
    return f"was {'waiting' if waited else task.state}{restored}"


def _rate(task: TaskStatus) -> str:
    return f"{task.rate:,.0f}/s"


def _time(ms: int) -> str:
    return time_text(ms // 1000 * 1000)
