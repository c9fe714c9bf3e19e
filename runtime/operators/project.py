"""Renaming and selecting columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .node import Edges
from .task_epoch import TaskEpoch


@dataclass(frozen=True)
class Project:
    """New key and value columns: new name -> physical name of the column it is; None leaves that side as it is."""

    flow: str
    key: Mapping[str, str] | None = None
    value: Mapping[str, str] | None = None
    at: str = ""

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:  # noqa: ARG002
        """See `Node`."""
        rows = edges[self.flow]
        key, value = (
            None if side is None else {new: rows.columns[name] for new, name in side.items()}
            for side in (self.key, self.value)
        )
        edges[self.flow] = rows.with_columns(key, value)
