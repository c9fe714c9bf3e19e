"""Changes of a project since its last commit, their verdicts and ways out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from ...errors import HeadwaterError
from ..ingest.append import AppendedOtherwiseError, AppendedUnknownError, check_appended
from ..ir.topology import Topic
from ..log.errors import TopicChangedError, read_to_append
from ..log.state import LogState

# The plan, the start of a run and the lines of `compile` and `build` use the same changes. So a run does what the plan
# says.


class Verdict(StrEnum):
    """What a change means for the next run, the mildest first.

    `COMPATIBLE`: it resumes from the committed state. `REPLACE`: it replaces the result, mostly by a rebuild, and then
    continues. `ERROR`: it does not start.
    """

    NOTHING = "nothing"
    COMPATIBLE = "compatible"
    REPLACE = "replace"
    ERROR = "error"

    @property
    def rank(self) -> int:
        """Its index in the order."""
        return tuple(Verdict).index(self)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst verdict; `NOTHING` if there are none."""
    return max(verdicts, key=lambda verdict: verdict.rank, default=Verdict.NOTHING)


SubjectKind = Literal["topology", "flow", "store", "topic", "seed"]


@dataclass(frozen=True)
class Subject:
    """A changed part. `application`: that has its state; `<project>-seed` for external topics."""

    kind: SubjectKind
    name: str
    application: str

    @classmethod
    def of_topology(cls, application: str) -> Subject:
        """The topology of an application."""
        return cls("topology", application.partition("-")[2], application)

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True)
class Way:
    """A way out: what to do, and the command that does it; None if no command does."""

    what: str
    command: str | None = None

    def __str__(self) -> str:
        return self.what if self.command is None else f"{self.what}: {self.command}"


@dataclass(frozen=True)
class ReadAgain:
    """Records that the next run reads a second time. `start`: partition -> first offset. `bytes`: of their files.

    Of a topic in Kafka (`kafka:main:x`), `records` counts offsets, and the run asks Kafka which of these it still has.
    """

    topic: str
    start: Mapping[int, int]
    records: int
    bytes: int


@dataclass(frozen=True)
class Change:
    """One difference between the project and its committed state.

    `kind`: a name for programs, such as `store.window`. `what`: one sentence without its subject. `lines`: the diff,
    such as `+ gate string`. `place`: `file:line` of the changed part; None if unknown. `ways`: the ways out, the best
    first. `onward`: how the change applies without a rebuild (`--continue`); empty if it needs one.
    """

    kind: str
    subject: Subject
    verdict: Verdict
    what: str
    lines: tuple[str, ...] = ()
    place: str | None = None
    ways: tuple[Way, ...] = ()
    reads_again: tuple[ReadAgain, ...] = field(default=())
    onward: str = ""

    def __str__(self) -> str:
        at = f"{self.place}: " if self.place else ""
        return "\n      ".join((f"{at}{self.subject}: {self.what}", *self.lines))


def with_changes(message: str, changes: Iterable[Change]) -> str:
    """A message of an error, with changes below it and their ways out, each once."""
    once = list(dict.fromkeys(changes))
    listed = "".join(f"\n  - {change}" for change in once)
    ways = "".join(f"\n  - {way}" for way in dict.fromkeys(way for change in once for way in change.ways))
    out = f"\n  ways out:{ways}" if ways else ""
    return f"{message}:{listed}{out}"


class IncompatibleStateError(HeadwaterError):
    """The project no longer fits the committed state: `application`, `changes` with the errors."""

    def __init__(self, application: str, changes: Sequence[Change]) -> None:
        super().__init__(with_changes(f"{application} no longer fits its committed state", changes))


UNDO = Way("undo the change")

RUN_AGAIN = "headwater run --full-refresh"
"""The start of a command that restarts topologies."""

FROM_THE_FIRST = "from the first available record"
"""Where they start, unless their flows have another `start`."""

CONTINUE = Way("apply it from the next record on, and keep existing results", "headwater run --continue")
"""For changes that need no rebuild (`Change.onward`)."""


def start_again(what: str, selected: str, command: Literal["run", "build"] = "run") -> Way:
    """The way to restart the selected topologies with a full refresh. `what`: its sentence."""
    return Way(what, f"headwater {command} --full-refresh --select '{selected}'")


def called_before(topology: str, old: str) -> Way:
    """The way to declare that a topology is another one under a new name."""
    return Way(f"if {topology} is {old} under a new name, put `was: {old}` into its file: it resumes where that was")


def ways_back(application: str) -> tuple[Way, Way]:
    """The ways to undo the change, or to restart the application and its readers."""
    selected = f"{application.partition('-')[2]}+"
    return UNDO, start_again(f"restart it and its readers {FROM_THE_FIRST}", selected)


def ways_onward(application: str) -> tuple[Way, ...]:
    """The ways of `ways_back`, and to continue."""
    undo, again = ways_back(application)
    return undo, CONTINUE, again


def ways_to_declare(error: TopicChangedError, state: LogState, topic: Topic) -> tuple[Way, ...]:
    """The ways out of a topic that is declared in another way than its records. `state`: of its writer."""
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
    """The number of appended records that prevent a new seed of a topic; 0 if they can stay."""
    try:
        check_appended(state, topic)
    except AppendedOtherwiseError as error:
        return error.records
    except AppendedUnknownError:  # `seed` reports it
        pass
    return 0
