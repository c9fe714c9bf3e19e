"""`headwater log ls`: lists what is in the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from ....readable_text import json_text
from ...options import ProjectOptions, format_option, whole_project_options
from ...printing import tables
from ...printing.tables import size_text, time_text
from ...printing.terminal import ERROR, print_line, print_styled, with_name
from .verify import searched_log

if TYPE_CHECKING:
    from ....runtime.log.cleaning.readers import HeldBack
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
    """List applications of the log with their commits, and topics with their records and sizes.

    For named topics, partitions with their offsets. It reads commits only and takes no lock: use it at any time, also
    while a topology runs.
    """
    project = options.warned_project()
    applications = project.log_contents(topics)
    if style == "json":
        click.echo(
            json_text({"applications": [_json(application, applications) for application in applications]}, indent=2)
        )
    elif not applications:
        print_line("nothing was committed to the log yet")
        print_line(searched_log(project), err=True)
    else:
        _print(applications, partitions=bool(topics))
    for application in applications:
        if application.error is not None:
            print_styled(ERROR, with_name(application.application, application.error.message), err=True)
            if application.error.hint:
                print_styled(("  hint: ", "bold"), application.error.hint, err=True)
    if any(application.error for application in applications):
        raise SystemExit(1)


def _print(applications: Sequence[ApplicationContents], *, partitions: bool) -> None:
    topics = [(application, topic) for application in applications for topic in application.topics]
    if partitions:
        for number, (application, topic) in enumerate(topics):
            print_line(f"{chr(10) if number else ''}{topic.topic}, of {application.application}")
            tables.show(_PARTITIONS, [_partition_row(part) for part in topic.partitions], right=(0, 1, 2, 3, 4))
    else:
        tables.show(_APPLICATIONS, [_application_row(application) for application in applications], right=(1, 3, 4, 5))
        for application in applications:
            if application.place:
                print_line(
                    f"{application.application} was renamed or rebuilt: "
                    f"its commits and files are named {application.place}"
                )
    if topics and not partitions:
        click.echo()
        tables.show(_TOPICS, [_topic_row(topic) for _, topic in topics], right=(1, 2, 3, 4))
        click.echo()
        tables.show(_TIMES, [[topic.topic, _time(topic.oldest), _time(topic.newest)] for _, topic in topics])
    _print_held(applications)


def _print_held(applications: Sequence[ApplicationContents]) -> None:
    held = [(records, since) for application in applications for records, since in _held(application, applications)]
    if not held:
        return
    print_line("\nexpired records that a reader has not consumed yet:")
    rows = [[records.topic, f"{records.records:,}", records.reader, _time(since) or "never"] for records, since in held]
    tables.show(_HELD, rows, right=(1,))
    hint = "run the reader; if its topology is not in the project any more: `headwater remove`"
    print_styled(("  hint: ", "bold"), hint, err=True)


def _held(
    application: ApplicationContents, applications: Sequence[ApplicationContents]
) -> Iterator[tuple[HeldBack, int | None]]:
    """Records of an application's topics that a reader holds back, each with the time of the reader's last commit."""
    committed = {reader.application: reader.committed_at for reader in applications}
    for records in application.held:
        yield records, committed.get(records.reader)


def _application_row(application: ApplicationContents) -> list[str]:
    if application.error is not None:
        return [application.application, "unreadable", *[""] * (len(_APPLICATIONS) - 2)]
    counts = [f"{count:,}" for count in (application.records, application.segments)]
    return [
        application.application,
        f"{application.commits:,}",
        _time(application.committed_at),
        *counts,
        size_text(application.size),
    ]


def _topic_row(topic: TopicContents) -> list[str]:
    counts = [f"{count:,}" for count in (len(topic.partitions), topic.records, topic.segments)]
    return [topic.topic, *counts, size_text(topic.size)]


def _partition_row(part: PartitionContents) -> list[str]:
    counts = [str(part.partition), f"{part.records:,}", str(part.start), str(part.end)]
    return [*counts, size_text(part.size), _time(part.oldest), _time(part.newest)]


def _time(ms: int | None) -> str:
    return "" if ms is None else time_text(ms)


def _json(application: ApplicationContents, applications: Sequence[ApplicationContents]) -> dict[str, Any]:
    """The form published as `schemas/log_contents.json`."""
    return {
        "application": application.application,
        "place": application.place or application.application,
        "error": None if application.error is None else application.error.message,
        "commits": application.commits,
        "committed_at": application.committed_at,
        "generation": application.generation,
        "records": application.records,
        "segments": application.segments,
        "files": application.files,
        "bytes": application.size,
        "snapshots": {"files": application.store_copies, "bytes": application.copies_size},
        "topics": [_topic_json(topic) for topic in application.topics],
        "held_back": [
            {"topic": held.topic, "reader": held.reader, "records": held.records, "since": since}
            for held, since in _held(application, applications)
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
