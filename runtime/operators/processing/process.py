"""The operator of the `process` step: an object of a project's class is given one record after another."""

from __future__ import annotations

from dataclasses import dataclass

from ...records.types import columns_ddl
from ...timed_parts import timed
from .. import declarations
from ..declarations import Flow
from ..node import Edges, step_name
from ..rows import Rows
from ..task_epoch import TaskEpoch
from .moment import Moment
from .running import Running
from .stores.opened import OpenedStores


@dataclass(frozen=True)
class Process(declarations.Process):
    """See `declarations.Process`.

    What a record fails for is raised as RowFailedError: the epoch is then worked out again without it, so nothing of it
    is left in stores. What fails elsewhere, in `init`, `close` or a punctuation, is no record's fault.
    """

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """See `Node`. Raises RowFailedError, FunctionError."""
        assert epoch.origins is not None
        with timed("python"):
            rows, moment = edges.pop(self.flow), Moment.at_start(epoch.origins.before)
            stores = OpenedStores(self.stores, epoch, epoch.origins, moment)
            running = Running(self, columns_of(rows), epoch, stores.by_name, moment)
            try:
                running.begin()
                stores.sweep()
                stores.expect(rows)
                running.process(rows)
                running.end()
                stores.flush(step_name(self))
                edges.update(running.edges(rows))
            finally:
                moment.ended = True


def columns_of(rows: Rows) -> Flow:
    """The columns of rows."""
    sides = (columns_ddl({name: column.type for name, column in side.items()}) for side in (rows.keys, rows.values))
    return Flow(*sides)
