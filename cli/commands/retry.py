"""`headwater retry`: redrives dead letters into the topic from which they came."""

from __future__ import annotations

from typing import Any

import click

from ...readable_text import counted
from ..given_files import InputLines, read_json_records
from ..options import ProjectOptions, whole_project_options
from ..printing.terminal import print_line


@click.command()
@whole_project_options
@click.argument("topic")
@click.option(
    "--file", "source", type=InputLines(), help="Only these, corrected: lines of `headwater read --format json`."
)
def command(options: ProjectOptions, topic: str, source: Any) -> None:
    """Put the records of a dead-letter TOPIC back into the topic from which they came (redrive).

    A record is put back once: those of earlier calls are skipped. All topologies that read the topic read the records
    again.
    """
    project = options.warned_project()
    result = project.retry(topic, None if source is None else read_json_records(source))
    if result.topic is None:
        print_line(f"{topic} has no dead letters")
        return
    skipped = f", {counted(result.already, 'record')} had been put back before" if result.already else ""
    print_line(f"put {counted(result.records, 'record')} back into {result.topic}{skipped}")
