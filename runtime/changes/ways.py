"""The ways out of a change that stops a run."""

from __future__ import annotations

from typing import Literal

from ..ingest.appended import AppendedOtherwiseError, AppendedUnknownError, check_appended
from ..log.errors import TopicChangedError, read_to_append
from ..log.state import LogState
from ..topology import Topic
from .model import Way

UNDO = Way("undo the change")

RUN_AGAIN = "headwater run --full-refresh"
"""How a command begins that has topologies begin again."""

FROM_THE_FIRST = "from the first record that is there"
"""Where they begin, unless their flows have another `start`."""

CONTINUE = Way("let it count from the next record on, and keep what is there as it is", "headwater run --continue")
"""For changes that need no result to be computed again (`Change.onward`)."""


def start_again(what: str, selected: str, command: Literal["run", "build"] = "run") -> Way:
    """Forget what the selected topologies have committed. `what` says so in words."""
    return Way(what, f"headwater {command} --full-refresh --select '{selected}'")


def called_before(topology: str, old: str) -> Way:
    """To say that a topology is another one under a new name."""
    return Way(f"if {topology} is {old} under a new name, put `was: {old}` into its file: it goes on where that was")


def ways_back(application: str) -> tuple[Way, Way]:
    """To undo the change, or to forget what the application and its readers have committed."""
    selected = f"{application.partition('-')[2]}+"
    return UNDO, start_again(f"start it and what reads it again {FROM_THE_FIRST}", selected)


def ways_onward(application: str) -> tuple[Way, ...]:
    """The same, and to go on from what is committed."""
    undo, again = ways_back(application)
    return undo, CONTINUE, again


def ways_to_declare(error: TopicChangedError, state: LogState, topic: Topic) -> tuple[Way, ...]:
    """Out of another declaration of a topic than that of its records. `state`: of the application that writes it."""
    back = Way("declare it as it was")
    if error.writer is not None:
        return back, start_again("start its writer again", f"{error.writer.partition('-')[2]}+")
    copied = f"{read_to_append(error.topic)} | headwater seed OTHER --append"
    if error.seeded and (kept := _kept_otherwise(state, topic)):
        copy = Way(f"copy its {kept:,} appended records first, with the others, to a topic of another name", copied)
        give_up = f"headwater seed {error.topic} --full-refresh --drop-appended"
        return back, copy, Way("seed it again without them, which also starts again what has read it", give_up)
    if error.seeded:
        what = "seed it again, which also starts again what has read it; records appended to it stay, behind it"
        return back, Way(what, f"headwater seed {error.topic} --full-refresh")
    return back, Way("copy its records to a topic of another name", copied)


def _kept_otherwise(state: LogState, topic: Topic) -> int:
    """How many appended records keep a topic from being seeded again; 0 if they can stay."""
    try:
        check_appended(state, topic)
    except AppendedOtherwiseError as error:
        return error.records
    except AppendedUnknownError:  # `seed` tells it
        pass
    return 0
