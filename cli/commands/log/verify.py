"""`headwater log verify`: reads a whole log, and lists what is damaged."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from ....readable_text import json_text
from ....runtime.driver.event_texts import counted
from ...options import ProjectOptions, format_option, whole_project_options
from ...printing.findings import warn_of_call
from ...printing.tables import size_text
from ...printing.terminal import ERROR, console, is_terminal, say, tell

if TYPE_CHECKING:
    from ....api.project import Project
    from ....runtime.log.inspection.verification import Damage, Progress, VerifiedApplication

_EVERY_SECONDS = 10.0
"""How often a line says how far it is, where that is not shown on a terminal."""


_WITHOUT_COMMITS = (
    "they are left of what was killed before its first commit, or the commits are lost; if they are, put `commits` and "
    "`applications` of the log back from a copy before anything runs, because runs remove such files in time"
)


@click.command(short_help="Compare all of the log with its checksums.")
@whole_project_options
@format_option("text", "json", default="text")
def command(options: ProjectOptions, style: str) -> None:
    """Read all that commits list, and compare it with their checksums.

    The exit code is 1 if anything is damaged. Each damage is listed with its topic, partition, offsets and file, and
    with what is lost. Nothing is changed. It works while topologies run.
    """
    project = options.project()
    warn_of_call(project)
    with shown_progress() as progress:
        found = project.verify_log(progress)
    if style == "json":
        click.echo(json_text({"applications": [_json(each) for each in found]}, indent=2))
    else:
        if not found:
            tell("nothing was committed to the log yet")
            tell(looked_at(project), err=True)
        for each in found:
            tell(headline(each))
        for damage in (damage for each in found for damage in each.damages):
            _show(damage)
    if any(each.damages for each in found):
        raise SystemExit(1)


def looked_at(project: Project) -> str:
    """Where a log was looked for in which nothing was found. It may be another one than the user believes."""
    return (
        f"looked at {project.log_place()}: it lists no commits, and no files of this project's applications; if "
        "records were written, correct `log:` in profiles.yml, or mount or put back what should be there"
    )


def headline(each: VerifiedApplication) -> str:
    """What was looked at of an application, in a line or two."""
    counts = [
        counted(each.commits, "commit"),
        counted(each.snapshots, "snapshot"),
        f"{counted(each.segments, 'segment')} with {counted(each.records, 'record')} ({size_text(each.size)})",
    ]
    if each.store_copies:
        counts.append(counted(each.store_copies, "copy of a store", "copies of stores"))
    verdict = "whole" if each.commits else "nothing was committed"
    if each.damages:
        verdict = counted(len(each.damages), "damage")
    said = f"{each.application}: {verdict}: {', '.join(counts)}"
    if each.unlisted:
        size = size_text(sum(file.size for file in each.unlisted))
        said += f"\n  {counted(len(each.unlisted), 'file')} ({size}) that no commit lists: "
        said += "runs remove them in time" if each.commits else _WITHOUT_COMMITS
    return said


def _show(damage: Damage) -> None:
    click.echo()
    records = f"{damage.place}: {counted(damage.records, 'record')} cannot be read: " if damage.place else ""
    say(ERROR, f"{records}{damage.what}")
    say(("  lost: ", "bold"), damage.lost)
    say(("  hint: ", "bold"), damage.way_out)


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """Shows on stderr how many segments were read: on a terminal as a bar, elsewhere as a line every ten seconds."""
    if not is_terminal(err=True):
        yield _lines()
        return
    from rich.progress import Progress as Bar

    with Bar(console=console(err=True), transient=True) as bar:
        task = bar.add_task("segments", total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)


def _lines() -> Progress:
    last = time.monotonic()

    def told(done: int, of: int) -> None:
        nonlocal last
        if time.monotonic() - last >= _EVERY_SECONDS:
            last = time.monotonic()
            tell(f"{done:,} of {of:,} segments read", err=True)

    return told


def _json(each: VerifiedApplication) -> dict[str, Any]:
    """The form published as `schemas/log_verification.json`."""
    return {
        "application": each.application,
        "commits": each.commits,
        "snapshots": each.snapshots,
        "segments": each.segments,
        "records": each.records,
        "bytes": each.size,
        "store_copies": each.store_copies,
        "unlisted": [{"path": file.path, "bytes": file.size} for file in each.unlisted],
        "damages": [_damage_json(damage) for damage in each.damages],
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
