"""`headwater rewind`: changes a reader's position in a topic."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from ...readable_text import counted
from ..options import Parsed, ProjectOptions, WholeNumber, milliseconds, whole_project_options
from ..printing import tables
from ..printing.terminal import print_line
from ..removing import confirmed

if TYPE_CHECKING:
    from ...runtime.progress.rewinding import Rewind, Whence

_HEADER = ("partition", "unread now", "unread then", "read again", "passed over")


def _whence(text: str) -> Whence:
    """The position in each partition of `earliest`, `latest`, `offset:N`, or a time."""
    from ...runtime.progress.rewinding import EARLIEST, LATEST, Whence

    if text in ("earliest", "latest"):
        return EARLIEST if text == "earliest" else LATEST
    offset = re.fullmatch("offset:([0-9]{1,18})", text)
    if offset:
        return Whence("offset", int(offset[1]))
    if text.startswith("offset"):
        raise ValueError(f"{text!r} is not of the form offset:N")
    return Whence("time", milliseconds(text))


@click.command()
@whole_project_options
@click.argument("topology")
@click.option("--topic", required=True, help="An input topic of the topology.")
@click.option(
    "--to",
    "whence",
    type=Parsed("earliest|latest|offset:N|time", _whence),
    required=True,
    help="The position to resume from, in each partition.",
)
@click.option("--partition", "partitions", type=WholeNumber(0), multiple=True, help="Only this one; can be repeated.")
@click.option("--keep-state", is_flag=True, help="Allow it although stores then count records once more.")
@click.option("--dry-run", is_flag=True, help="Only show the new positions.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def command(
    options: ProjectOptions,
    topology: str,
    topic: str,
    whence: Whence,
    partitions: tuple[int, ...],
    keep_state: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Move a topology in an input topic: it reads records again, or skips some.

    Its output and its stores do not change. So it is an error if records that are read again would count twice in a
    store, its own or that of a reader of its output: `headwater reset` starts all of them again.
    """
    project = options.warned_project()
    planned = project.plan_rewind(topology, topic, whence, partitions, keep_state=keep_state)
    _show(planned)
    if not planned.is_needed:
        print_line(f"{planned.application} is there already: nothing to change")
        return
    if not confirmed(dry_run, yes, f"Move {planned.application} in {planned.topic}?"):
        return
    project.rewind(planned)
    print_line(f"{planned.application} resumes there with its next run")


def _show(planned: Rewind) -> None:
    rows = [
        [str(move.partition), *(f"{count:,}" for count in (move.unread, move.then, move.again, move.skipped))]
        for move in planned.moves
    ]
    tables.show(_HEADER, rows, right=(0, 1, 2, 3, 4))
    if planned.again and planned.stores:
        names = ", ".join(f"{store} of {owner}" for owner, store in planned.stores)
        verb = "counts" if planned.again == 1 else "count"
        print_line(f"{counted(planned.again, 'record')} {verb} once more in {names}")
    if planned.again and planned.readers:
        print_line(f"{', '.join(planned.readers)} will read the output of these records once more")
