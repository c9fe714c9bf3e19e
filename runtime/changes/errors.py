"""The error of a run that changes of the project do not let begin."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import HeadwaterError
from .model import Change


class IncompatibleStateError(HeadwaterError):
    """The project no longer fits the committed state; `changes` has each change that is the reason, with its place."""

    def __init__(self, application: str, changes: Sequence[Change]) -> None:
        listed = "".join(f"\n  - {change}" for change in changes)
        ways = "".join(f"\n  - {way}" for way in dict.fromkeys(way for change in changes for way in change.ways))
        out = f"\n  ways out:{ways}" if ways else ""
        super().__init__(f"{application} no longer fits its committed state:{listed}{out}")
        self.application = application
        self.changes = tuple(changes)
