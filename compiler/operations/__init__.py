"""The steps of the language, a module for each. None knows another, nor how they are wired to each other.

`base` says what a step and an operation are; `parts` has operations that several steps are made of.
"""

from __future__ import annotations

from collections.abc import Mapping

from .aggregate import AggregateStep
from .base.step import StepAction
from .branch import BranchStep
from .explode import ExplodeStep
from .filter import FilterStep
from .join import JoinStep
from .key_by import KeyByStep
from .repartition import RepartitionStep
from .select import DropStep, SelectStep, WithColumnsStep
from .to_stream import ToStreamStep
from .to_table import ToTableStep
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
    "to_table": ToTableStep,
    "to_stream": ToStreamStep,
    "branch": BranchStep,
}
"""What each word of `steps:` is."""

RESERVED = frozenset({"process", "suppress"})
"""Words of steps to come."""
