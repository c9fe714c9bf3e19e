"""The operator of `emit: on_close`: the rows of a windowed aggregate, each once, when its window closes.

A row is closed by the record that moves the step's clock so far. It comes out at that record's place, behind all that
the record has done before. Kafka Streams looks for closed rows after it has put the record into its store, where they
may have expired by then; here they come out first. Up to where rows have come out follows from the committed clock, so
an epoch that is repeated gives the same rows, and none twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...windows import AnyWindow
from .. import declarations
from ..node import Edges
from ..task_epoch import TaskEpoch
from .closed_rows import Closing, closed_rows


@dataclass(frozen=True)
class FinalResults(declarations.FinalResults):
    """Takes every update of the aggregate, and gives the rows whose windows close, by start and then by key bytes.

    Sessions come by end, start and key bytes. A row keeps its timestamp, and has the headers of the record that closed
    its window. A row that is open stays in the store, also at the end of the input.
    """

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """See `Node`."""
        rows = edges[self.flow]
        assert isinstance(self.store.window, AnyWindow)
        closing = Closing.of(self.store, rows, self.store.window.closed_after_ms, epoch)
        edges[self.flow], _ = closed_rows(self.store, rows, closing, epoch.store(self.store))
