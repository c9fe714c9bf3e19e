"""`headwater retry`: puts dead letters back into the topic from which they came."""

from __future__ import annotations

from typing import Any

import click

from ...runtime.driver.event_texts import counted
from ..given_files import GivenLines, records_of
from ..options import ProjectOptions, whole_project_options
from ..printing.findings import warn_of_call
from ..printing.terminal import tell


@click.command()
@whole_project_options
@click.argument("topic")
@click.option(
    "--file", "source", type=GivenLines(), help="Only these, changed: lines of `headwater read --format json`."
)
def command(options: ProjectOptions, topic: str, source: Any) -> None:
    """Put the records of a TOPIC of dead letters back into the topic from which they came.

    Once each: those that were put back before are left out. What they are then is up to the topologies that read the
    topic: all of them read the records again.
    """
    project = options.project()
    warn_of_call(project)
    result = project.retry(topic, None if source is None else records_of(source))
    if result.topic is None:
        tell(f"{topic} has no dead letters")
        return
    before = f", {counted(result.already, 'record')} had been put back before" if result.already else ""
    tell(f"put {counted(result.records, 'record')} back into {result.topic}{before}")
