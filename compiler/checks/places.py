"""Checks where a target keeps its data: one command must not remove what another one needs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..diagnostics import Diagnostics, Position
from ..reading.load import LoadedProject
from ..reading.nodes import Mapping, Node, Scalar
from ..target_settings import DEFAULT_LOG, DEFAULT_STATE

_TARGET = "target"
"""The folder of generated files, which `clean` removes."""


_HINT = f"Give each a folder of its own, such as '{DEFAULT_LOG}' and '{DEFAULT_STATE}'."


@dataclass(frozen=True)
class _Place:
    """A folder as written and as resolved. `position` is None if it is the default."""

    written: str
    path: Path
    position: Position | None


def check_places(loaded: LoadedProject, diagnostics: Diagnostics) -> None:
    """Report a state directory in the same place as the project or the log, and data inside of `target/`."""
    if loaded.target is None:
        return
    state = _place(loaded.root, loaded.target.get("state_dir"), DEFAULT_STATE)
    log = _log(loaded.root, loaded.target.get("log"))
    if state is not None:
        found = _shared(loaded.root, state, log)
        if found is not None:
            at = state.position or (log and log.position) or loaded.target.position
            diagnostics.add("HW028", at, f"The state_dir '{state.written}' {found}.", _HINT)
    generated = _resolved(loaded.root / _TARGET)
    for word, place in (("state_dir", state), ("log", log)):
        relation = None if place is None or generated is None else _relation(place.path, generated)
        if place is not None and relation in ("is", "lies in"):
            message = (
                f"The {word} '{place.written}' {relation} the folder '{_TARGET}', which `headwater clean` removes."
            )
            diagnostics.add("HW029", place.position or loaded.target.position, message, _HINT)


def _shared(root: Path, state: _Place, log: _Place | None) -> str | None:
    """How the state directory overlaps with the project or the log; None if it does not."""
    project = _resolved(root)
    relation = None if project is None else _relation(state.path, project)
    if relation in ("is", "contains"):
        return f"{relation} the project's folder"
    relation = None if log is None else _relation(state.path, log.path)
    return None if log is None or relation is None else f"{relation} the log, '{log.written}'"


def _relation(one: Path, other: Path) -> str | None:
    if one == other:
        return "is"
    if other.is_relative_to(one):
        return "contains"
    return "lies in" if one.is_relative_to(other) else None


def _log(root: Path, log: Node | None) -> _Place | None:
    """The folder of a log, if it has one."""
    if isinstance(log, Mapping) and "name" in log:
        log = log.get("options")
        return _place(root, log.get("path"), "") if isinstance(log, Mapping) else None
    if isinstance(log, Mapping) and "uri" in log:
        return None
    return _place(root, log.get("path") if isinstance(log, Mapping) else None, DEFAULT_LOG)


def _place(root: Path, written: Node | None, default: str) -> _Place | None:
    """The folder; None if the value cannot be a folder of this machine."""
    if written is None:
        text, position = default, None
    elif isinstance(written, Scalar) and isinstance(written.value, str):
        text, position = written.value, written.position
    else:
        return None
    path = _resolved(root / text) if text and "://" not in text else None
    return None if path is None else _Place(text, path, position)


def _resolved(path: Path) -> Path | None:
    """The path without symbolic links and `..`; None if it is invalid or links form a circle, which `debug` reports."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):
        return None
