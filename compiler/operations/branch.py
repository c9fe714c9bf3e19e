"""`branch`: sends each row to the first flow whose predicate is true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

from ...runtime.engine.sql_step import SqlStep
from ..entries import Reader, scalar
from ..language.expressions import Expression
from ..reading.source import MappingNode, Node, ScalarNode, SequenceNode
from .base.context import FlowContext, References, Step, StepAction
from .base.operation import Description, Processor, SqlOperation
from .base.site import Shape, Site, SqlLayout, columns_read
from .parts.projection import with_calls


@dataclass(frozen=True)
class BranchCase:
    """One flow of a `branch`. `when`: its predicate; None if it gets the remaining rows."""

    flow: ScalarNode
    when: ScalarNode | None


@dataclass(frozen=True)
class BranchStep(StepAction):
    """`branch:`, the last step of its flow."""

    cases: tuple[BranchCase, ...]

    @classmethod
    def read(cls, node: Node, reader: Reader) -> Self | None:
        items = [item for item in node if isinstance(item, MappingNode)] if isinstance(node, SequenceNode) else []
        named = ((scalar(item, "flow"), scalar(item, "when")) for item in items)
        cases = tuple(BranchCase(flow, when) for flow, when in named if flow is not None)
        return cls(cases) if cases else None

    def references(self) -> References:
        return References(flows=tuple(case.flow for case in self.cases))

    def check(self, context: FlowContext, step: Step, shape: Shape, following: Step | None) -> Shape:
        """Require booleans. A case without a predicate gets the remaining rows, so it must be the last."""
        for case, after in pairwise(self.cases):
            if case.when is None:
                message = f"'{case.flow.text}' gets all remaining rows, so '{after.flow.text}' gets none."
                context.report("HW514", after.flow.position, message, "Put the case without `when` last.")
                break
        cases: list[tuple[str, Expression | None]] = []
        for case in self.cases:
            predicate = context.predicate(case.when, shape) if case.when is not None else None
            cases.append((case.flow.text, predicate))
            context.topology.shapes.setdefault(case.flow.text, shape)
        ready = with_calls(context, step, shape, [when for _, when in cases if when is not None], null_values=True)
        return context.add(Branching(tuple(cases), tuple(flow for flow, _ in cases)), ready, shape, step)


@dataclass(frozen=True)
class Branching(SqlOperation):
    """Sends each row to the first flow whose predicate is true. `into`: the flows with a reader, one output each."""

    cases: tuple[tuple[str, Expression | None], ...]
    into: tuple[str, ...]

    has_effect = False
    null_keys = "passed"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """The columns read later, and the columns of the predicates."""
        return output | columns_read(when for _, when in self.cases if when is not None)

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        """A node for the branch, and one per flow."""
        fan = tuple(Processor(f"KSTREAM-BRANCH-{name}") for name in self.into)
        return Description(f"branch {', '.join(self.into)}", (Processor("KSTREAM-BRANCH"),), fan)

    def in_sql(self, site: Site) -> SqlLayout:
        branches = {name: None if when is None else when.render(site.input.sql) for name, when in self.cases}
        edges, kept = site.copies(self.into)
        step = SqlStep("branch", site.flows, branches=branches, keep=kept, at=site.at)
        return SqlLayout((step,), edges)
