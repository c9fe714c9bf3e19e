"""A plan, its JSON, and plan files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...errors import HeadwaterError
from ..dataclass_json import JSON_TYPES, DamagedFileError, fitting
from ..log.inspection.contents import contents_of
from ..log.placed_log import PlacedLog
from ..state.directory import StateDirectory, rebuild_state_dir
from .model import Change, Verdict, worst

_BLOCK = 512
"""The unit of `st_blocks`, bytes."""


@dataclass(frozen=True)
class Space:
    """The disk space that rebuilds still need at a `place`, in `bytes`: as much as the present results take there.

    `free`: of its file system, bytes; None if unknown. `enough`: whether everything fits that is written to that file
    system.
    """

    place: str
    bytes: int
    free: int | None = None
    enough: bool = True


def space_of(log: PlacedLog, applications: Sequence[str], place: str, state_dir: Path | None) -> tuple[Space, ...]:
    """The space for rebuilds of these applications, in the log at `place` and in the state directory on
    this machine.
    """
    if not applications:
        return ()
    new = log.beside({name: rebuild.place for name, rebuild in log.places().recomputed.items() if name in applications})
    begun = [name for name in applications if new.place_of(name) != log.place_of(name)]
    in_log = sum(_size(log, name) for name in applications) - sum(_size(new, name) for name in begun)
    folders: list[tuple[str, Path | None, int]] = [(place, Path(place) if Path(place).is_dir() else None, in_log)]
    if state_dir is not None:
        present, there = (sum(_taken(folder, applications)) for folder in (state_dir, rebuild_state_dir(state_dir)))
        folders.append((str(state_dir), state_dir if state_dir.is_dir() else None, present - there))
    needed: dict[int, int] = {}
    for _, folder, size in folders:
        if folder is not None:
            device = folder.stat().st_dev
            needed[device] = needed.get(device, 0) + max(0, size)
    return tuple(_space(name, folder, max(0, size), needed) for name, folder, size in folders)


def _space(place: str, folder: Path | None, size: int, needed: dict[int, int]) -> Space:
    if folder is None:
        return Space(place, size)
    free = shutil.disk_usage(folder).free
    return Space(place, size, free, needed[folder.stat().st_dev] <= free)


def _size(log: PlacedLog, application: str) -> int:
    return contents_of(log, application).size


def _taken(state_dir: Path, applications: Sequence[str]) -> Iterator[int]:
    """The sizes of the files of stores on the disk: those of LMDB are sparse."""
    for application in applications:
        for directory in StateDirectory.find_all(state_dir, application):
            for path in directory.path.rglob("*"):
                yield path.lstat().st_blocks * _BLOCK


@dataclass(frozen=True)
class Waiting:
    """Unread records of a topology. `topics`: topic -> their number, without topics that have none.

    `seconds`: how long a run takes for them at the rate of the last run; None if unknown. `passed`: topic -> records
    that it skips, as it starts behind them (`start`).
    """

    records: int = 0
    bytes: int = 0
    seconds: float | None = None
    topics: Mapping[str, int] = field(default_factory=dict)
    passed: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ApplicationPlan:
    """What a run of one topology would do. `begun`: whether it has consumed a record.

    `changes`: of the topology, its topics and stores since the last commit. `waiting`: None if positions are unknown.
    `typed`: False if it has expressions without a type, so that it cannot be compared. `unknown`: columns
    (`<store or topic>.<column>`) of unknown type, if the rest can be compared.
    """

    topology: str
    application: str
    place: str | None = None
    begun: bool = False
    changes: tuple[Change, ...] = ()
    waiting: Waiting | None = None
    typed: bool = True
    unknown: tuple[str, ...] = ()

    @property
    def undecided(self) -> bool:
        """Whether unknown types may change the verdict."""
        return not self.typed or (self.begun and bool(self.unknown))

    @property
    def verdict(self) -> Verdict:
        """The worst of its changes."""
        return worst(change.verdict for change in self.changes)


@dataclass(frozen=True)
class Orphan:
    """An application in the log without a topology in the project.

    `records`, `bytes`: its data in the log, changelogs included; None in a plan against a manifest. `committed_at`: its
    last commit, ms since 1970. `renamed`: the topology of the project that is probably its new name.
    """

    application: str
    topology: str
    records: int | None = None
    bytes: int | None = None
    committed_at: int | None = None
    renamed: str | None = None


@dataclass(frozen=True, repr=False)
class Plan:
    """What the next `run`, and `seed` and `build`, would do.

    `log`: its location; None if the project was compared with a manifest, `against`. `seeds`: changes of seeds.
    `space`: of rebuilds, besides the present results. `state`: application -> a mark of its committed state. `content`:
    topology or seed -> content hash. `go_on`: of a run with `--continue`.
    """

    project: str
    log: str | None = None
    against: str | None = None
    applications: tuple[ApplicationPlan, ...] = ()
    seeds: tuple[Change, ...] = ()
    orphans: tuple[Orphan, ...] = ()
    space: tuple[Space, ...] = ()
    state: Mapping[str, str] = field(default_factory=dict)
    content: Mapping[str, str] = field(default_factory=dict)
    go_on: bool = False

    def __repr__(self) -> str:
        count = len(self.changes)
        changes = f", {count} change{'' if count == 1 else 's'}" if count else ""
        return f"<Plan of {self.project}: {self.verdict}{changes}>"

    @property
    def changes(self) -> tuple[Change, ...]:
        """All changes, of applications and of seeds."""
        return (*(change for application in self.applications for change in application.changes), *self.seeds)

    @property
    def verdict(self) -> Verdict:
        """The worst of all."""
        return worst(change.verdict for change in self.changes)

    @property
    def untyped(self) -> tuple[str, ...]:
        """The topologies whose verdict may change, as they have untyped expressions.

        A topology that has written nothing yet needs no types.
        """
        return tuple(application.topology for application in self.applications if application.undecided)

    def needs_decision(self, allowed: Collection[str] = ()) -> bool:
        """Whether a user has to decide before a run. `allowed`: the verdicts of them that need no decision."""
        undecided = {change.verdict for change in self.changes}.intersection({Verdict.REPLACE, Verdict.ERROR})
        return bool(undecided.difference(allowed) or self.untyped)


# Reading of JSON files that may be damaged or edited.


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object of a file. Raises OSError, DamagedFileError."""
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise DamagedFileError(f"byte {error.start} is not UTF-8") from error
    if not text.strip():
        raise DamagedFileError("it is empty")
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise DamagedFileError(f"line {error.lineno}, column {error.colno} is no JSON ({error.msg})") from error
    except RecursionError as error:
        raise DamagedFileError("its JSON is nested too deeply") from error
    except ValueError as error:  # a number of thousands of digits
        raise DamagedFileError(f"it is no JSON ({error})") from error
    if not isinstance(value, dict):
        raise DamagedFileError(f"it contains {JSON_TYPES[type(value)]} and not an object")
    return value


FORMAT = 2
"""Of a plan file. A version with another format raises it, and reads only that one."""


class PlanFileError(HeadwaterError):
    """A file that is no plan of a run."""

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(f"{path}: {cause}", "make one with: headwater plan --out FILE")


class PlanOutdatedError(HeadwaterError):
    """The project or the log has changed since a plan was made: `reasons`."""

    def __init__(self, reasons: tuple[str, ...]) -> None:
        super().__init__(f"the plan is outdated: {'; '.join(reasons)}", "plan again: headwater plan --out FILE")


@dataclass(frozen=True)
class PlanBasis:
    """The project and the state that a plan was made of: see `Plan`."""

    project: str
    state: Mapping[str, str]
    content: Mapping[str, str]
    go_on: bool = False

    @classmethod
    def from_plan(cls, plan: Plan) -> PlanBasis:
        """The basis of a plan."""
        return cls(plan.project, plan.state, plan.content, plan.go_on)

    @classmethod
    def read(cls, path: Path) -> PlanBasis:
        """The basis of a plan in a file of `headwater plan --out`. Raises PlanFileError."""
        try:
            plain = read_object(path)
            if (form := fitting(_Form, plain).format) != FORMAT:
                raise PlanFileError(path, f"the plan has format {form}, this version reads format {FORMAT}")
            written = fitting(_Written, plain)
            if written.against is not None:
                raise PlanFileError(path, "the plan was made against a manifest, not on the log")
            for application in (*(f"{written.project}-{name}" for name in written.content), f"{written.project}-seed"):
                if application not in written.state:
                    raise DamagedFileError(f"state.{application} is missing")
        except OSError as error:
            raise PlanFileError(path, error.strerror or str(error)) from error
        except DamagedFileError as error:
            raise PlanFileError(path, f"it is no plan: {error}") from error
        return cls(written.project, written.state, written.content, written.continue_)

    def require(self, now: Plan) -> None:
        """Raise PlanOutdatedError if the project or the log has changed since, as far as types are known."""
        reasons = []
        names = [application.topology for application in now.applications]
        if (self.project, set(self.content)) != (now.project, set(names)):
            reasons.append(f"the plan is of {_named(self.content)}, this run is of {_named(names)}")
        if unknown := [name for name, digest in self.content.items() if not digest]:
            reasons.append(f"the plan was made before all expressions of {', '.join(unknown)} were typed")
        changed = [
            name
            for name, digest in now.content.items()
            if digest and self.content.get(name, digest) not in ("", digest)
        ]
        if changed:
            reasons.append(f"the files of {', '.join(changed)} have changed since")
        moved = [name for name, mark in now.state.items() if self.state.get(name, mark) != mark]
        if moved:
            reasons.append(f"{', '.join(moved)} {'has' if len(moved) == 1 else 'have'} committed something since")
        if now.go_on and not self.go_on:
            reasons.append("the plan was made without --continue")
        if reasons:
            raise PlanOutdatedError(tuple(reasons))


@dataclass(frozen=True)
class _Form:
    """The fields of every version."""

    format: int


@dataclass(frozen=True)
class _Written:
    """The fields that a run needs."""

    project: str
    against: str | None
    state: Mapping[str, str]
    content: Mapping[str, str]
    continue_: bool


def _named(content: Iterable[str]) -> str:
    return ", ".join(content) or "nothing"


def plan_json(plan: Plan) -> dict[str, Any]:
    """A plan as plain JSON values, in the form of `schemas/plan.json`."""
    return {
        "format": FORMAT,
        "project": plan.project,
        "verdict": plan.verdict.value,
        "log": plan.log,
        "against": plan.against,
        "continue": plan.go_on,
        "topologies": [_application(application) for application in plan.applications],
        "seeds": [_change(change) for change in plan.seeds],
        "orphans": [asdict(orphan) for orphan in plan.orphans],
        "space": [asdict(space) for space in plan.space],
        "state": dict(plan.state),
        "content": dict(plan.content),
    }


def _application(plan: ApplicationPlan) -> dict[str, Any]:
    return {
        "topology": plan.topology,
        "application": plan.application,
        "place": plan.place,
        "verdict": plan.verdict.value if plan.typed else None,
        "begun": plan.begun,
        "unknown": list(plan.unknown),
        "waiting": None if plan.waiting is None else asdict(plan.waiting),
        "changes": [_change(change) for change in plan.changes],
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "kind": change.kind,
        "subject": {"kind": change.subject.kind, "name": change.subject.name},
        "verdict": change.verdict.value,
        "what": change.what,
        "diff": list(change.lines),
        "place": change.place,
        "ways": [{"what": way.what, "command": way.command} for way in change.ways],
        "reads_again": [
            {**asdict(again), "start": {str(partition): offset for partition, offset in again.start.items()}}
            for again in change.reads_again
        ],
    }
