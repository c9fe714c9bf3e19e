"""A plan, and its JSON."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from ...errors import HeadwaterError
from ..dataclass_json import from_plain
from ..log.inspection.contents import contents_of
from ..log.placed_log import PlacedLog
from ..state.directory import StateDirectory, rebuild_state_dir
from .model import Change, Verdict, worst

# How much room results take that are computed again, beside those that are there.

_BLOCK = 512
"""Bytes of the unit in which systems tell how much of the disk a file takes."""


@dataclass(frozen=True)
class Space:
    """About so many `bytes` are still to be written at a `place`, as many as the present results take there. `free`: of
    its file system, None where that is not known. `enough`: False if all that comes to that file system does not fit.
    """

    place: str
    bytes: int
    free: int | None = None
    enough: bool = True


def space_of(log: PlacedLog, applications: Sequence[str], place: str, state_dir: Path | None) -> tuple[Space, ...]:
    """Of the results of these applications, in the log at a `place` and in the state directory on this machine."""
    if not applications:
        return ()
    new = log.beside({name: each.place for name, each in log.places().recomputed.items() if name in applications})
    begun = [name for name in applications if new.place_of(name) != log.place_of(name)]
    in_log = sum(_size(log, name) for name in applications) - sum(_size(new, name) for name in begun)
    folders: list[tuple[str, Path | None, int]] = [(place, Path(place) if Path(place).is_dir() else None, in_log)]
    if state_dir is not None:
        present, there = (sum(_taken(each, applications)) for each in (state_dir, rebuild_state_dir(state_dir)))
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
    """What the files of stores take on the disk: those of LMDB have holes."""
    for application in applications:
        for directory in StateDirectory.find_all(state_dir, application):
            for path in directory.path.rglob("*"):
                yield path.lstat().st_blocks * _BLOCK


# A plan: what the next run of a project would do with what is committed. Plain data.


@dataclass(frozen=True)
class Waiting:
    """Committed records that a topology has not consumed. `topics`: those that have some, each with how many.

    `seconds`: about how long a run takes for them, at the rate of the last run; None if no run has left a rate.
    `passed`: the records of topics that it does not read, as it begins behind them (`start`).
    """

    records: int = 0
    bytes: int = 0
    seconds: float | None = None
    topics: Mapping[str, int] = field(default_factory=dict)
    passed: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ApplicationPlan:
    """What a run of one topology would do. `begun`: whether it has consumed anything yet.

    `changes`: what is different from when it was committed, on any of what it reads, keeps and writes. `waiting`: None
    where positions are not known. `judged`: False if it has expressions that Spark has not judged, so that nothing can
    be said. `unknown`: columns (`<store or topic>.<column>`) that have such an expression, if the rest can be said.
    """

    topology: str
    application: str
    place: str | None = None
    begun: bool = False
    changes: tuple[Change, ...] = ()
    waiting: Waiting | None = None
    judged: bool = True
    unknown: tuple[str, ...] = ()

    @property
    def undecided(self) -> bool:
        """Whether what is not known of it may change the answer."""
        return not self.judged or (self.begun and bool(self.unknown))

    @property
    def verdict(self) -> Verdict:
        """The worst of its changes."""
        return worst(change.verdict for change in self.changes)


@dataclass(frozen=True)
class Orphan:
    """An application in the log that no topology of the project owns any more.

    `records`, `bytes`: what it has in the log, changelogs included; None where only a manifest is known.
    `committed_at`: its last commit, ms. `renamed`: the topology of the project that is probably the same under a new
    name.
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

    `log`: where it is; None if the project was compared with a manifest, `against`. `seeds`: seeds that are not
    committed as they are now. `space`: what results that are computed again take beside the present ones.
    `state`: application -> what was committed when the plan was made. `content`: topology or seed -> a hash of what the
    project says of it. `go_on`: of a run with `--continue`.
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
        return (*(change for each in self.applications for change in each.changes), *self.seeds)

    @property
    def verdict(self) -> Verdict:
        """The worst of all."""
        return worst(change.verdict for change in self.changes)

    @property
    def unjudged(self) -> tuple[str, ...]:
        """The topologies of which not all is known, as they have expressions that Spark has not judged yet.

        Types that nothing was written with yet need not be known.
        """
        return tuple(each.topology for each in self.applications if each.undecided)

    def needs_decision(self, allowed: Collection[str] = ()) -> bool:
        """Whether a user has to decide before a run. `allowed`: the verdicts of them that need no decision."""
        undecided = {change.verdict for change in self.changes}.intersection({Verdict.REPLACE, Verdict.ERROR})
        return bool(undecided.difference(allowed) or self.unjudged)


# Reads a JSON file that somebody else may have written, cut off or changed, into a frozen dataclass.
#
# Commits have checksums, so `dataclass_json` need not look at each value of theirs. Manifests and plans have none.

T = TypeVar("T")

_WORDS: Mapping[type, str] = {
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    NoneType: "null",
}


class DamagedFileError(Exception):
    """A file that does not hold what it should; the text says where and why."""


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object of a file. Raises OSError, DamagedFileError."""
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise DamagedFileError(f"byte {error.start} is not UTF-8") from error
    if not text.strip():
        raise DamagedFileError("it is empty")
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise DamagedFileError(f"line {error.lineno}, column {error.colno} is no JSON ({error.msg})") from error
    except RecursionError as error:
        raise DamagedFileError("its JSON is nested too deeply") from error
    except ValueError as error:  # a number of thousands of digits
        raise DamagedFileError(f"it is no JSON ({error})") from error
    if not isinstance(found, dict):
        raise DamagedFileError(f"it holds {_WORDS[type(found)]} and not an object")
    return found


def fitting(kind: type[T], plain: Any) -> T:
    """The instance of a dataclass from plain JSON values, each of which must be of its field's type.

    Raises DamagedFileError, which names the first one that is not.
    """
    _require(kind, plain, "")
    return from_plain(kind, plain)


def _require(kind: Any, plain: Any, at: str) -> None:
    origin, args = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        _require_fields(kind, plain, at)
    elif origin is UnionType:
        if plain is not None and plain != {}:
            (other,) = (each for each in args if each is not NoneType)
            _require(other, plain, at)
    elif origin is Mapping:
        for key, value in _of(dict, plain, at).items():
            _require(args[0], key, f"a key of {at}")
            _require(args[1], value, f"{at}.{key}")
    elif origin is tuple:
        _require_items(args, plain, at)
    elif origin is Literal:
        if plain not in args:
            raise DamagedFileError(f"{at} is {plain!r} and not one of {', '.join(map(repr, args))}")
    elif kind is not Any:
        _of(kind, plain, at)


def _require_fields(kind: Any, plain: Any, at: str) -> None:
    hints, known = get_type_hints(kind), fields(kind)
    if getattr(kind, "as_list", False):
        given = _of(list, plain, at)
        places = [f"{at}[{number}]" for number in range(len(known))]
        if len(given) > len(known):
            raise DamagedFileError(f"{at} has {len(given)} items and not {len(known)}")
        found = dict(zip(places, given, strict=False))
    else:
        names = [each.name.removesuffix("_") for each in known]
        places = [f"{at}.{name}" if at else name for name in names]
        given = _of(dict, plain, at or "it")
        found = {place: given[name] for place, name in zip(places, names, strict=True) if name in given}
    for each, place in zip(known, places, strict=True):
        if place in found:
            _require(hints[each.name], found[place], place)
        elif each.default is MISSING and each.default_factory is MISSING:
            raise DamagedFileError(f"{place} is missing")


def _require_items(kinds: tuple[Any, ...], plain: Any, at: str) -> None:
    given = _of(list, plain, at)
    each_kind = kinds[:1] * len(given) if kinds[-1] is ... else kinds
    if len(given) != len(each_kind):
        raise DamagedFileError(f"{at} has {len(given)} items and not {len(each_kind)}")
    for number, (kind, item) in enumerate(zip(each_kind, given, strict=True)):
        _require(kind, item, f"{at}[{number}]")


def _of(kind: type, plain: Any, at: str) -> Any:
    if type(plain) is not kind:
        raise DamagedFileError(f"{at} is {_WORDS[type(plain)]} and not {_WORDS[kind]}")
    if isinstance(plain, str) and any("\ud800" <= sign <= "\udfff" for sign in plain):
        raise DamagedFileError(f"{at} has half of a character")  # that nobody could print
    return plain


# A plan as plain JSON values, in the form of `schemas/plan.json`.

FORMAT = 2
"""Of a plan in a file. A version that writes another form raises it, and reads no other."""


class PlanFileError(HeadwaterError):
    """A file that holds no plan which a run can be held to: `path`."""

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(f"{path}: {cause}", "make one with: headwater plan --out FILE")
        self.path = path


class PlanOutdatedError(HeadwaterError):
    """Since a plan was made, the project has changed or something was committed: `reasons` says what."""

    def __init__(self, reasons: tuple[str, ...]) -> None:
        super().__init__(f"this is not what was planned: {'; '.join(reasons)}", "plan again: headwater plan --out FILE")
        self.reasons = reasons


@dataclass(frozen=True)
class Made:
    """What a plan was made of: see `Plan`."""

    project: str
    state: Mapping[str, str]
    content: Mapping[str, str]
    go_on: bool = False

    @classmethod
    def of(cls, plan: Plan) -> Made:
        """Of a plan at hand."""
        return cls(plan.project, plan.state, plan.content, plan.go_on)

    @classmethod
    def read(cls, path: Path) -> Made:
        """From a file that `headwater plan --out` wrote. Raises PlanFileError."""
        try:
            found = read_object(path)
            if (form := fitting(_Form, found).format) != FORMAT:
                raise PlanFileError(path, f"the plan is of form {form}, this version reads form {FORMAT}")
            written = fitting(_Written, found)
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
        """Raises PlanOutdatedError if the project or the log is another one by now, as far as types are known."""
        reasons = []
        names = [each.topology for each in now.applications]
        if (self.project, set(self.content)) != (now.project, set(names)):
            reasons.append(f"the plan is of {_named(self.content)}, this run is of {_named(names)}")
        if unknown := [name for name, found in self.content.items() if not found]:
            reasons.append(f"the plan was made before all expressions of {', '.join(unknown)} were judged")
        changed = [
            name for name, found in now.content.items() if found and self.content.get(name, found) not in ("", found)
        ]
        if changed:
            reasons.append(f"the files of {', '.join(changed)} have changed since")
        moved = [name for name, found in now.state.items() if self.state.get(name, found) != found]
        if moved:
            reasons.append(f"{', '.join(moved)} {'has' if len(moved) == 1 else 'have'} committed something since")
        if now.go_on and not self.go_on:
            reasons.append("the plan was made without --continue")
        if reasons:
            raise PlanOutdatedError(tuple(reasons))


@dataclass(frozen=True)
class _Form:
    """What every version writes."""

    format: int


@dataclass(frozen=True)
class _Written:
    """What a run needs of the file."""

    project: str
    against: str | None
    state: Mapping[str, str]
    content: Mapping[str, str]
    continue_: bool


def _named(content: Iterable[str]) -> str:
    return ", ".join(content) or "nothing"


def plan_json(plan: Plan) -> dict[str, Any]:
    """The whole plan."""
    return {
        "format": FORMAT,
        "project": plan.project,
        "verdict": plan.verdict.value,
        "log": plan.log,
        "against": plan.against,
        "continue": plan.go_on,
        "topologies": [_application(each) for each in plan.applications],
        "seeds": [_change(each) for each in plan.seeds],
        "orphans": [asdict(each) for each in plan.orphans],
        "space": [asdict(each) for each in plan.space],
        "state": dict(plan.state),
        "content": dict(plan.content),
    }


def _application(each: ApplicationPlan) -> dict[str, Any]:
    return {
        "topology": each.topology,
        "application": each.application,
        "place": each.place,
        "verdict": each.verdict.value if each.judged else None,
        "begun": each.begun,
        "unknown": list(each.unknown),
        "waiting": None if each.waiting is None else asdict(each.waiting),
        "changes": [_change(change) for change in each.changes],
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
            {**asdict(each), "start": {str(partition): offset for partition, offset in each.start.items()}}
            for each in change.reads_again
        ],
    }
