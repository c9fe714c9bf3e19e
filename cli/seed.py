"""`headwater seed`: fills topics from the files and functions that their `seed:` names."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from ..errors import HeadwaterError
from ..runtime.driver.reports.event_texts import counted
from .findings import warn
from .options import ProjectOptions, project_options
from .results import show_seeds

_LINES = click.File("rb")


@click.command()
@project_options
@click.option("--append", is_flag=True, help="Append records to one TOPIC: JSON lines from --file or standard input.")
@click.option("--file", "source", type=_LINES, help="Records for --append.")
@click.option(
    "--full-refresh",
    is_flag=True,
    help="Empty the topics and seed them again. Topologies that read them start again from the beginning.",
)
@click.argument("topics", metavar="[TOPIC]...", nargs=-1)
def command(options: ProjectOptions, append: bool, source: Any, full_refresh: bool, topics: tuple[str, ...]) -> None:
    """Fill topics from their seeds.

    All, the selected, or those named; each in one commit. A seed whose content has not changed is left alone.
    """
    project = options.project()
    if topics and options.select:
        raise click.UsageError("name topics or select them; both together would leave open which are meant")
    if not append:
        show_seeds(project.seed(topics, full_refresh=full_refresh))
        warn(project)
        return
    if len(topics) != 1 or full_refresh:
        raise click.UsageError("--append takes one TOPIC, and no --full-refresh")
    if source is None and sys.stdin is None:  # the calling program has closed it
        raise click.UsageError("there is no standard input; --file names a file")
    source = source or _LINES.convert("-", None, None)
    appended = project.append(topics[0], _records(source)).records
    click.echo(f"appended {counted(appended, 'record')} to {topics[0]}")


def _records(source: Any) -> list[dict[str, Any]]:
    """JSON objects, one a line, in the form that `headwater read --format json` prints."""
    records = []
    name = Path(getattr(source, "name", "<stdin>")).name
    for number, line in enumerate(source, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise HeadwaterError(f"{name}:{number}: this is not UTF-8", "write the records in UTF-8") from error
        except (ValueError, RecursionError) as error:
            reason = error.msg if isinstance(error, json.JSONDecodeError) else error
            raise HeadwaterError(f"{name}:{number}: this is not JSON: {reason}", "give one object a line") from error
        if not isinstance(record, dict):
            raise HeadwaterError(f"{name}:{number}: a record is a JSON object", "give one object a line")
        records.append(record)
    return records
