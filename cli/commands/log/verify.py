"""`headwater log verify`: reads a whole log, and lists the damage."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from ....readable_text import counted, json_text
from ...options import ProjectOptions, format_option, whole_project_options
from ...printing.tables import size_text
from ...printing.terminal import ERROR, console, is_terminal, print_line, print_styled

if TYPE_CHECKING:
    from ....api.project import Project
    from ....runtime.log.inspection.verification import Damage, Progress, VerifiedApplication

_EVERY_SECONDS = 10.0
"""How often a line reports progress if stderr is no terminal."""


_WITHOUT_COMMITS = (
    "either they were written before a first commit that never came, or the commits are lost; if so, put `commits` and "
    "`applications` of the log back from a copy before anything runs: runs remove such files in time"
)


@click.command(short_help="Compare all of the log with its checksums.")
@whole_project_options
@format_option("text", "json", default="text")
def command(options: ProjectOptions, style: str) -> None:
    """Read everything that commits list, and compare it with its checksums.

    The exit code is 1 if anything is damaged. A damage is listed with its topic, partition, offsets, file, and what is
    lost. Nothing is changed. It works while topologies run.
    """
    project = options.warned_project()
    with shown_progress() as progress:
        applications = project.verify_log(progress)
    if style == "json":
        click.echo(json_text({"applications": [_json(application) for application in applications]}, indent=2))
    else:
        if not applications:
            print_line("nothing was committed to the log yet")
            print_line(searched_log(project), err=True)
        for application in applications:
            print_line(headline(application))
        for damage in (damage for application in applications for damage in application.damages):
            _show(damage)
    if any(application.damages for application in applications):
        raise SystemExit(1)


def searched_log(project: Project) -> str:
    """The path of the log in which nothing was found: it may not be the one that the user expects."""
    return (
        f"searched {project.log_place()}: it lists no commits, and no files of this project's applications; if "
        "records were written, correct `log:` in profiles.yml, or mount or put back what should be there"
    )


def headline(application: VerifiedApplication) -> str:
    """The verdict on an application and what was checked, in a line or two."""
    records = f"{counted(application.records, 'record')} ({size_text(application.size)})"
    counts = [
        counted(application.commits, "commit"),
        counted(application.snapshots, "snapshot"),
        f"{counted(application.segments, 'segment')} with {records}",
    ]
    if application.store_copies:
        counts.append(counted(application.store_copies, "copy of a store", "copies of stores"))
    verdict = "whole" if application.commits else "nothing was committed"
    if application.damages:
        verdict = counted(len(application.damages), "damage")
    text = f"{application.application}: {verdict}: {', '.join(counts)}"
    if application.unlisted:
        size = size_text(sum(file.size for file in application.unlisted))
        text += f"\n  {counted(len(application.unlisted), 'file')} ({size}) that no commit lists: "
        text += "runs remove them in time" if application.commits else _WITHOUT_COMMITS
    return text


def _show(damage: Damage) -> None:
    click.echo()
    records = f"{damage.place}: {counted(damage.records, 'record')} cannot be read: " if damage.place else ""
    print_styled(ERROR, f"{records}{damage.what}")
    print_styled(("  lost: ", "bold"), damage.lost)
    print_styled(("  hint: ", "bold"), damage.way_out)


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """Show on stderr how many segments have been read: as a bar on a terminal, else as a line every ten seconds."""
    if not is_terminal(err=True):
        yield _lines()
        return
    from rich.progress import Progress as Bar

    with Bar(console=console(err=True), transient=True) as bar:
        task = bar.add_task("segments", total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)


def _lines() -> Progress:
    last = time.monotonic()

    def print_progress(done: int, of: int) -> None:
        nonlocal last
        if time.monotonic() - last >= _EVERY_SECONDS:
            last = time.monotonic()
            print_line(f"{done:,} of {of:,} segments read", err=True)

    return print_progress


def _json(application: VerifiedApplication) -> dict[str, Any]:
    """The form published as `schemas/log_verification.json`."""
    return {
        "application": application.application,
        "commits": application.commits,
        "snapshots": application.snapshots,
        "segments": application.segments,
        "records": application.records,
        "bytes": application.size,
        "store_copies": application.store_copies,
        "unlisted": [{"path": file.path, "bytes": file.size} for file in application.unlisted],
        "damages": [_damage_json(damage) for damage in application.damages],
    }


def _damage_json(damage: Damage) -> dict[str, Any]:
    place = damage.place
    return {
        "what": damage.what,
        "path": damage.path,
        "records": damage.records,
        "topic": None if place is None else place.topic,
        "partition": None if place is None else place.partition,
        "start": None if place is None else place.start,
        "end": None if place is None else place.end,
        "lost": damage.lost,
        "way_out": damage.way_out,
    }
