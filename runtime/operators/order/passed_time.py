"""Time that passes without a record: only tests of a project have tasks take notice of it.

Everywhere else it is records that move the clocks of steps. What a step gives up as time passes comes behind all rows
that its task has had, in an epoch of its own: first at the steps above, whose rows are then processed by those below
before time reaches these.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...records.kinds import Kind
from ..rows import Rows

_BEHIND = 2**62
"""The second level of the paths of what comes out: behind all that records have led to."""


@dataclass(frozen=True)
class PassedTime:
    """`time`: what all clocks of the task are moved to, ms. `level`: the first level of the last path in the stage.
    `order`: the `_order` of what comes out: the time, but in a trial the number of the task's first record.
    """

    time: int
    level: int
    order: int

    def place(self, rank: int) -> Rows:
        """One row without columns: where that comes out which a step gives up. `rank`: of the step in its stage."""
        path = tuple(np.array([level]) for level in (self.level, _BEHIND, rank))
        time, order = np.array([self.time]), np.array([self.order])
        return Rows(path, np.array([Kind.VALUE], np.int8), time, order, None, {}, (), ())
