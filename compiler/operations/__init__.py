"""The steps of the language, one module per step. They import neither each other nor the wiring.

`base` defines steps and operations. `parts` has operations that several steps use.
"""

from __future__ import annotations

from collections.abc import Mapping

from .aggregate import AggregateStep
from .base.context import StepAction
from .branch import BranchStep
from .explode import ExplodeStep
from .filter import FilterStep
from .joins.step import JoinStep
from .key_by import KeyByStep, RepartitionStep
from .process import ProcessStep
from .reduce import ReduceStep
from .select import DropStep, SelectStep, WithColumnsStep
from .suppress import SuppressStep
from .to_table import ToStreamStep, ToTableStep
from .window import WindowStep

STEPS: Mapping[str, type[StepAction]] = {
    "filter": FilterStep,
    "select": SelectStep,
    "with_columns": WithColumnsStep,
    "drop": DropStep,
    "explode": ExplodeStep,
    "key_by": KeyByStep,
    "repartition": RepartitionStep,
    "join": JoinStep,
    "window": WindowStep,
    "aggregate": AggregateStep,
    "reduce": ReduceStep,
    "suppress": SuppressStep,
    "to_table": ToTableStep,
    "to_stream": ToStreamStep,
    "branch": BranchStep,
    "process": ProcessStep,
}
"""The steps by their keywords in `steps:`."""
