"""A plan as plain JSON values, in the form of `schemas/plan.json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ....errors import HeadwaterError
from ..model import Change
from .json_file import DamagedFileError, fitting, read_object
from .plan import ApplicationPlan, Plan

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
