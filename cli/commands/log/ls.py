"""`headwater log ls`: what is in the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from ....readable_text import json_text
from ...options import ProjectOptions, format_option, whole_project_options
from ...printing import tables
from ...printing.findings import warn_of_call
from ...printing.tables import size_text, time_text
from ...printing.terminal import ERROR, named, say, tell
from .verify import looked_at

if TYPE_CHECKING:
    from ....runtime.log.cleaning.held import HeldBack
    from ....runtime.log.inspection.contents import ApplicationContents, PartitionContents, TopicContents

_APPLICATIONS = ("application", "commits", "last commit", "records", "segments", "size")
_TOPICS = ("topic", "partitions", "records", "segments", "size")
_TIMES = ("topic", "oldest", "newest")
_PARTITIONS = ("partition", "records", "from", "to", "size", "oldest", "newest")
_HELD = ("topic", "records", "wait for", "its last commit")


@click.command(short_help="List applications and topics of the log.")
@whole_project_options
@click.argument("topics", nargs=-1)
@format_option("table", "json", default="table")
def command(options: ProjectOptions, topics: Sequence[str], style: str) -> None:
    """List what is in the log: applications with their commits, and topics with their records and sizes.

    Of topics that are named, each partition with its offsets. It reads commits only, and no lock keeps it from that:
    ask whenever you like, also while a topology runs.
    """
    project = options.project()
    warn_of_call(project)
    found = project.log_contents(topics)
    if style == "json":
        click.echo(json_text({"applications": [_json(each, found) for each in found]}, indent=2))
    elif not found:
        tell("nothing was committed to the log yet")
        tell(looked_at(project), err=True)
    else:
        _print(found, partitions=bool(topics))
    for each in found:
        if each.error is not None:
            say(ERROR, named(each.application, each.error.message), err=True)
            if each.error.hint:
                say(("  hint: ", "bold"), each.error.hint, err=True)
    if any(each.error for each in found):
        raise SystemExit(1)


def _print(found: Sequence[ApplicationContents], *, partitions: bool) -> None:
    topics = [(each, topic) for each in found for topic in each.topics]
    if partitions:
        for number, (each, topic) in enumerate(topics):
            tell(f"{chr(10) if number else ''}{topic.topic}, of {each.application}")
            tables.show(_PARTITIONS, [_partition_row(part) for part in topic.partitions], right=(0, 1, 2, 3, 4))
    else:
        tables.show(_APPLICATIONS, [_application_row(each) for each in found], right=(1, 3, 4, 5))
        for each in found:
            if each.place:
                told = f"{each.application} was renamed or computed again: its commits and files are named {each.place}"
                tell(told)
    if topics and not partitions:
        click.echo()
        tables.show(_TOPICS, [_topic_row(topic) for _, topic in topics], right=(1, 2, 3, 4))
        click.echo()
        tables.show(_TIMES, [[topic.topic, _time(topic.oldest), _time(topic.newest)] for _, topic in topics])
    _print_held(found)


def _print_held(found: Sequence[ApplicationContents]) -> None:
    held = [(each, since) for application in found for each, since in _held(application, found)]
    if not held:
        return
    tell("\nrecords that would have gone, but for a reader that has not consumed them:")
    rows = [[each.topic, f"{each.records:,}", each.reader, _time(since) or "never"] for each, since in held]
    tables.show(_HELD, rows, right=(1,))
    hint = "run the reader; of a topology that is not in the project any more: `headwater remove`"
    say(("  hint: ", "bold"), hint, err=True)


def _held(
    application: ApplicationContents, found: Sequence[ApplicationContents]
) -> Iterator[tuple[HeldBack, int | None]]:
    """What is held back of an application's topics, each with when its reader committed last."""
    committed = {each.application: each.committed_at for each in found}
    for each in application.held:
        yield each, committed.get(each.reader)


def _application_row(each: ApplicationContents) -> list[str]:
    if each.error is not None:
        return [each.application, "unreadable", *[""] * (len(_APPLICATIONS) - 2)]
    counts = [f"{count:,}" for count in (each.records, each.segments)]
    return [each.application, f"{each.commits:,}", _time(each.committed_at), *counts, size_text(each.size)]


def _topic_row(topic: TopicContents) -> list[str]:
    counts = [f"{count:,}" for count in (len(topic.partitions), topic.records, topic.segments)]
    return [topic.topic, *counts, size_text(topic.size)]


def _partition_row(part: PartitionContents) -> list[str]:
    counts = [str(part.partition), f"{part.records:,}", str(part.start), str(part.end)]
    return [*counts, size_text(part.size), _time(part.oldest), _time(part.newest)]


def _time(ms: int | None) -> str:
    return "" if ms is None else time_text(ms)


def _json(each: ApplicationContents, found: Sequence[ApplicationContents]) -> dict[str, Any]:
    """The form published as `schemas/log_contents.json`."""
    return {
        "application": each.application,
        "place": each.place or each.application,
        "error": None if each.error is None else each.error.message,
        "commits": each.commits,
        "committed_at": each.committed_at,
        "generation": each.generation,
        "records": each.records,
        "segments": each.segments,
        "files": each.files,
        "bytes": each.size,
        "snapshots": {"files": each.store_copies, "bytes": each.copies_size},
        "topics": [_topic_json(topic) for topic in each.topics],
        "held_back": [
            {"topic": held.topic, "reader": held.reader, "records": held.records, "since": since}
            for held, since in _held(each, found)
        ],
    }


def _topic_json(topic: TopicContents) -> dict[str, Any]:
    return {
        "topic": topic.topic,
        "records": topic.records,
        "segments": topic.segments,
        "files": topic.files,
        "bytes": topic.size,
        "oldest": topic.oldest,
        "newest": topic.newest,
        "partitions": list(_partitions_json(topic)),
    }


def _partitions_json(topic: TopicContents) -> Iterator[dict[str, Any]]:
    for part in topic.partitions:
        yield {
            "partition": part.partition,
            "records": part.records,
            "start": part.start,
            "end": part.end,
            "segments": part.segments,
            "bytes": part.size,
            "oldest": part.oldest,
            "newest": part.newest,
        }
