"""Prints what `headwater debug kafka` has found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ...readable_text import counted, readable
from ...runtime.environment import duration_text
from . import tables
from .tables import cell, note_cut, time_text
from .terminal import ERROR, WARNING, print_line, print_styled

if TYPE_CHECKING:
    from ...runtime.kafka.report import ClusterReport, Sample, TopicReport

_TOPICS = ("topic", "", "in kafka", "partitions", "offsets", "cleanup", "retention", "timestamps", "rights")
_RECORDS = ("partition", "offset", "timestamp", "key", "value")


def report_json(reports: Sequence[ClusterReport]) -> list[dict[str, Any]]:
    """The reports for `--format json`: as `docs/cli.md` describes them."""
    return [asdict(report) for report in reports]


def print_reports(reports: Sequence[ClusterReport]) -> None:
    """Print clusters, their topics, the records of these, and at last what is wrong, on stderr."""
    cut = False
    for report in reports:
        if report.id is None:
            print_line(f"{report.name} at {report.servers}: cannot be used")
            continue
        brokers = counted(report.brokers or 0, "broker")
        print_line(f"{report.name} at {report.servers}: logged in, {brokers}, cluster id {report.id}")
        if report.topics:
            tables.show(_TOPICS, [_row(topic) for topic in report.topics], right=(3, 4))
        for topic in report.topics:
            if topic.samples:
                print_line("")
                print_line(f"{topic.name}: the last {counted(len(topic.samples), 'record')} in Kafka")
                cut |= tables.show(_RECORDS, [_sample(sample) for sample in topic.samples], right=(0, 1))
    for report in reports:
        for about, finding in report.all_findings:
            style = ERROR if finding.stops else WARNING
            print_styled(style, readable(f"{about}: {finding.what}"), err=True)
            if finding.way_out:
                print_styled(("  hint: ", "bold"), readable(finding.way_out), err=True)
    if cut:
        note_cut()


def _row(topic: TopicReport) -> tuple[str, ...]:
    settings = topic.settings
    unknown = topic.partitions is None
    return (
        topic.name,
        "written" if topic.written else "read",
        topic.topic,
        "-" if unknown else str(topic.partitions),
        "-" if topic.offsets is None else f"{topic.offsets:,}",
        settings.get("cleanup.policy", "-"),
        _retention(settings),
        settings.get("message.timestamp.type", "-"),
        _rights(topic),
    )


def _retention(settings: Mapping[str, str]) -> str:
    if "retention.ms" not in settings:
        return "-"
    if "delete" not in settings.get("cleanup.policy", "delete"):
        return "all"
    time_ = int(settings["retention.ms"])
    size = int(settings.get("retention.bytes", -1))
    parts = [duration_text(time_)] if time_ >= 0 else []
    parts += [f"{size:,} bytes"] if size >= 0 else []
    return " or ".join(parts) or "all"


def _rights(topic: TopicReport) -> str:
    if not topic.rights:
        return "-"
    denied = sorted({right.operation for right in topic.rights if not right.allowed})
    return f"not {', '.join(denied)}" if denied else "all"


def _sample(sample: Sample) -> tuple[str, ...]:
    if sample.raw is not None:
        key, value = (text if text is not None else "null" for text in sample.raw)
    else:
        key, value = (_short(columns) for columns in (sample.key, sample.value))
    return str(sample.partition), str(sample.offset), time_text(sample.timestamp), key, value


def _short(columns: Mapping[str, Any] | None) -> str:
    if columns is None:
        return "null"
    return " ".join(f"{name}={cell(name, value)}" for name, value in columns.items())
