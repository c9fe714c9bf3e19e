"""`headwater tasks`: shows the clients and tasks of running topologies."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from ...readable_text import counted, json_text
from ...runtime.timed_parts import wall_ms
from ..options import ProjectOptions, format_option, project_options
from ..printing import tables
from ..printing.findings import rebuild_progress
from ..printing.tables import (
    STORE_HEADER,
    STORE_RIGHT,
    TASK_HEADER,
    TASK_RIGHT,
    store_cells,
    stores_text,
    task_cells,
    time_text,
)
from ..printing.terminal import ERROR, WARNING, console, is_terminal, print_line, print_styled

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from ...api.project import Project
    from ...api.tasks import ApplicationTasks
    from ...runtime.driver.status import RunStatus, TaskStatus

HEADER = ("client", "task", "role", "state", "stores", "lag", "rate", "since")
_COLUMNS_OF_ENDED_RUN = 6
"""The first columns, which make sense for a run that has ended."""

_MOST_REASONS = 10
"""The most lines with reasons why tasks are idle."""

_RIGHT = (5, 6)
_WATCH_SECONDS = 1.0


@click.command()
@project_options
@click.option("--watch", is_flag=True, help="Refresh once a second, until Ctrl-C.")
@click.option(
    "-v", "--verbose", is_flag=True, help="Also show what each task has done, and what took most of its time."
)
@format_option("table", "json", default="table")
def command(options: ProjectOptions, watch: bool, verbose: bool, style: str) -> None:
    """Show what clients and tasks do, of all topologies or of the selected ones.

    It reads the status that each driver writes to the log, about once a second while it runs.
    """
    project = options.warned_project()
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


def _print(applications: Sequence[ApplicationTasks], style: str, verbose: bool, indent: int | None = 2) -> None:
    if style == "json":
        at = max((application.at for application in applications), default=wall_ms())
        shown = {"at": at, "applications": [application.to_json() for application in applications]}
        click.echo(json_text(shown, indent=indent))
        return
    if not applications:
        print_line("the project has no topology")
    for number, application in enumerate(applications):
        if number:
            click.echo()
        first, *more = headline(application)
        print_styled(*([WARNING] if application.stale else []), first)
        for error, hint in failure(application):
            print_styled(ERROR, error)
            print_styled(("  hint: ", "bold"), hint)
        for line in filter(None, (*more, recomputed(application), paused(application))):
            print_styled(line)
        header, right = _header(application)
        if rows := [row for row, _ in task_rows(application)]:
            tables.show(header, rows, right)
        for line in reasons(application):
            print_styled(line)
        if verbose and application.status is not None:
            counts = [task_cells(task) for _, task in _tasks(application)]
            for header, cells, right in (
                (TASK_HEADER, [row for row in counts if row is not None], TASK_RIGHT),
                (STORE_HEADER, store_cells(application.status), STORE_RIGHT),
            ):
                if cells:
                    click.echo()
                    tables.show(header, cells, right=right)


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
    """All applications on one screen. Moving tasks come first; the last line counts the tasks that do not fit.

    `verbose`: shows the numbers of the tasks in place of their states.
    """

    def __init__(self, applications: Sequence[ApplicationTasks], verbose: bool = False) -> None:
        self._applications = applications
        self._verbose = verbose

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.table import Table
        from rich.text import Text

        lines_left = console.height - 1
        hidden = 0
        for application in self._applications:
            first, *more = headline(application)
            causes = [error for error, _ in failure(application)]
            lines = "\n".join(filter(None, (first, *causes, *more, recomputed(application), paused(application))))
            head = Text(lines, style="bold yellow" if application.stale else "bold")
            idle = Text("\n".join(reasons(application)), style="yellow")
            lines_left -= (
                len(head.wrap(console, console.width)) + 2 + len(idle.wrap(console, console.width) if idle else ())
            )
            yield head
            header, right, rows = self._table(application)
            shown = rows[: max(0, lines_left)]
            hidden += len(rows) - len(shown)
            lines_left -= len(shown)
            if shown:
                table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
                for n, name in enumerate(header):
                    table.add_column(name, justify="right" if n in right else "left", no_wrap=True)
                for cells in shown:
                    table.add_row(*map(Text, cells))
                yield table
            if idle:
                yield idle
            yield Text()
        if hidden:
            yield Text(f"and {hidden:,} more task{'s' if hidden > 1 else ''}; without --watch all are shown")

    def _table(self, application: ApplicationTasks) -> tuple[Sequence[str], Sequence[int], Sequence[Sequence[str]]]:
        if self._verbose:
            nothing = [""] * (len(TASK_HEADER) - 1)
            counts = [
                [*(task_cells(task) or [f"{task.id} on {client}", *nothing]), stores_text(task)]
                for client, task in _tasks(application)
            ]
            return (*TASK_HEADER, "stores"), TASK_RIGHT, counts
        return *_header(application), [cells for cells, _ in sorted(task_rows(application), key=lambda row: row[1])]


def _tasks(application: ApplicationTasks) -> Iterator[tuple[str, TaskStatus]]:
    """(Client, task) of all tasks."""
    for client in application.status.clients if application.status is not None else ():
        yield from ((client.name, task) for task in client.tasks)


def failure(application: ApplicationTasks) -> Iterator[tuple[str, str]]:
    """The error with which a run has ended, in one line, and how to continue; nothing without an error."""
    status = application.status
    if status is not None and status.error is not None:
        error, *_ = status.error.splitlines() or [""]
        hint = status.hint or "`headwater run` resumes from the last commit"
        yield error, f"{hint}; target/run_results.json has all results of the run"


def headline(application: ApplicationTasks) -> list[str]:
    """The condition of an application's run, in lines that fit 80 columns for most names."""
    from ...runtime.driver.restoring import span

    status = application.status
    if status is None:
        return [f"{application.application} has not been run on this log yet: `headwater run` starts it"]
    process = "" if status.owner is None else f", process {status.owner.pid}"
    since = span((application.at - status.written_at) / 1000)
    written = time_text(status.written_at // 1000 * 1000)
    counts = f"{counted(status.records, 'record')} in {counted(status.commits, 'commit')}"
    match application.condition:
        case "running":
            moving = "; tasks are on their way between clients" if status.rebalancing else ""
            return [
                f"{application.application} has run since {_time(status.started_at)}",
                f"generation {status.generation} on {status.host}{process}, {counts}{moving}",
            ]
        case "gone":
            process = process.removeprefix(", process")
            text = f"{application.application} does not run any more: its process{process} is gone"
        case "silent":
            if status.lives:
                text = f"{application.application} is busy: its driver{process}, is alive, but writes no status"
            else:
                text = (
                    f"{application.application} may have stopped: its driver on {status.host} writes no status any more"
                )
        case _:
            how = (status.ended or "").replace("_", " ")
            return [
                f"{application.application} does not run: {how} {since} ago ({written})",
                f"generation {status.generation} on {status.host}, {counts}; at its end:",
            ]
    return [text, f"its last status, {since} ago ({written}):"]


def recomputed(application: ApplicationTasks) -> str:
    """A line if a result of the application is being rebuilt, else empty."""
    if application.recomputation is None:
        return ""
    waiting = "" if application.recomputing else "; no run works on it now: `headwater run` continues it"
    return f"a new result is being built: {rebuild_progress(application.recomputation)}{waiting}"


def paused(application: ApplicationTasks) -> str:
    """A line if the application is paused, or about to be, else empty."""
    if application.paused_since is None:
        return ""
    text = f"paused since {_time(application.paused_since)}; `headwater resume` ends the pause"
    working = application.condition == "running" and application.status is not None and not application.status.paused
    return f"{text}; records in progress are not finished yet" if working else text


def reasons(application: ApplicationTasks) -> list[str]:
    """Why tasks have stopped, and why others with unread records wait: a line for each reason."""
    status = application.status
    if status is None:
        return []
    lines = [f"task {task} {stop.sentence}" for task, stop in status.stops.items()]
    lines += [wait.cause.sentence(wait.tasks, application.application) for wait in status.waits]
    more = len(lines) - _MOST_REASONS
    return lines[:_MOST_REASONS] + ([f"and {more:,} more reasons; --format json has all"] if more > 0 else [])


def task_rows(application: ApplicationTasks) -> Iterator[tuple[list[str], int]]:
    """The cells of each task, and of each client without tasks. The number sorts rows that need attention first."""
    status, columns = application.status, len(_header(application)[0])
    if status is None:
        return
    state_of = _last_state if _is_over(application) else _state
    for client in status.clients:
        name = f"{client.name} on {client.host}" if client.host else client.name
        if not client.tasks:
            yield [name, "", "", "no tasks", "", "", "", ""][:columns], 2
        for task in client.tasks:
            stores = " ".join(store.name for store in task.stores)
            state, rate = state_of(task, status), f"{task.rate:,.0f}/s"
            cells = [name, task.id, task.role, state, stores, f"{task.lag:,}", rate, _time(task.since)]
            yield cells[:columns], _order(task, status)
    if not status.clients and status.ended is None:
        yield ["no client", "", "", "", "", "", "", ""][:columns], 0


def _is_over(application: ApplicationTasks) -> bool:
    """Whether the run has certainly ended."""
    return application.condition in ("ended", "gone")


def _header(application: ApplicationTasks) -> tuple[Sequence[str], Sequence[int]]:
    """The titles of the columns, and which of them are aligned to the right."""
    header = HEADER[:_COLUMNS_OF_ENDED_RUN] if _is_over(application) else HEADER
    return header, [n for n in _RIGHT if n < len(header)]


def _order(task: TaskStatus, status: RunStatus) -> int:
    if task.state != "running" or status.stop(task) is not None:
        return 0
    return 1 if task.role == "active" else 2


def _state(task: TaskStatus, status: RunStatus) -> str:
    from ...runtime.driver.restoring import span

    if status.stop(task) is not None:
        return "stopped"
    if status.waits_for(task):
        return "waiting"
    if task.state != "restoring":
        return task.state
    left = task.seconds_left
    ends = "" if left is None else f", {span(left)} left"
    return f"{task.state} {100 * task.restored:.0f} %{ends}"


def _last_state(task: TaskStatus, status: RunStatus) -> str:
    """The state of a task when its run ended."""
    if task.role == "active" and task.id in status.failed_tasks:
        return "failed"
    restored = f" {100 * task.restored:.0f} %" if task.state == "restoring" else ""
    return f"was {'waiting' if status.waits_for(task) else task.state}{restored}"


def _time(ms: int) -> str:
    return time_text(ms // 1000 * 1000)
