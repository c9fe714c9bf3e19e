"""What a step takes: a class for it, a class for its operation, a word. Nothing else of the compiler knows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import pytest

from headwater.compiler.diagnostics import Position
from headwater.compiler.emit.job import render_job
from headwater.compiler.entries import Reader
from headwater.compiler.model import build
from headwater.compiler.operations import STEPS
from headwater.compiler.operations.base.context import FlowContext, References, Rejection, Step, StepAction
from headwater.compiler.operations.base.operation import Description, Processor, PythonOperation, TableUse
from headwater.compiler.operations.base.site import PythonLayout, Shape, Site
from headwater.compiler.pipeline import CheckedProject
from headwater.compiler.reading.source import FixedOrigin, Node, ScalarNode
from headwater.compiler.resources import resources_of
from headwater.compiler.topology.description import describe
from headwater.runtime.engine.operators.stateless import Settle

TOPICS = "clicks: {partitions: 2, key: {user: string}, value: {url: string, seconds: int}}"
TOPOLOGY = """
tables:
  latest: {topic: clicks}
flows:
  quiet:
    from: latest
    steps:
      - select: {seconds: seconds}
      - suppress: {until: window_closes}
    to: out
"""


@dataclass(frozen=True)
class SuppressStep(StepAction):
    """A step in place of the one that the language has. It is for tables."""

    passes_tombstones = False

    @classmethod
    def read(cls, node: Node, reader: Reader) -> Self | None:
        return cls()

    def references(self) -> References:
        return References()

    def rejection(self, word: str, shape: Shape) -> Rejection | None:
        return None if shape.is_table else Rejection("HW501", f"'{word}' is for tables.", "Put `to_table` before it.")

    def check(self, context: FlowContext, step: Step, shape: Shape, following: Step | None) -> Shape:
        return context.add(Suppression(), shape, replace(shape, store=None), step)


@dataclass(frozen=True)
class Suppression(PythonOperation):
    has_effect = False
    null_keys = "passed"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        return output

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        return TableUse(filters=True, positive=positive)

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        return Description("suppress", (Processor("KTABLE-SUPPRESS"),))

    def in_python(self, site: Site) -> PythonLayout:
        return PythonLayout((Settle(site.input.name, site.at),), (site.input,))


@pytest.fixture
def suppress_is(monkeypatch: pytest.MonkeyPatch) -> Callable[[type[StepAction]], None]:
    def register(step: type[StepAction]) -> None:
        monkeypatch.setattr(build, "STEPS", {**STEPS, "suppress": step})

    return register


@pytest.fixture
def with_suppress(suppress_is: Callable[[type[StepAction]], None]) -> None:
    suppress_is(SuppressStep)


@pytest.mark.usefixtures("with_suppress")
def test_step_with_its_two_classes_and_a_word_compiles_to_the_end(compiled: Callable[..., CheckedProject]) -> None:
    project = compiled(TOPICS, TOPOLOGY)
    assert not list(project.diagnostics)
    (graph,) = project.topologies
    job = render_job(graph)
    assert "columns=" not in job, "a table keeps all columns"
    assert 'Table("latest", LATEST, emit="per_epoch", old=True' in job, "it filters, so old rows come along"
    assert 'Settle("latest"' in job
    assert "KTABLE-SUPPRESS" in describe(graph)
    assert "# quiet: suppress, topologies/t.yml:" in describe(graph)


@dataclass(frozen=True)
class KeptStep(SuppressStep):
    """A step that keeps its rows in a store after the flow's name, and says so or not."""

    says: ClassVar[bool]

    def references(self) -> References:
        return References(stores_result=self.says)

    def check(self, context: FlowContext, step: Step, shape: Shape, following: Step | None) -> Shape:
        store, _ = context.store(None, "key_value", shape.key, shape.value, shape)
        return replace(super().check(context, step, shape, following), store=store)


def kept(says: bool) -> type[KeptStep]:
    """The step, as its author has written it."""
    return type("Kept", (KeptStep,), {"says": says})


def test_store_of_a_new_step_is_listed(
    suppress_is: Callable[[type[StepAction]], None], compiled: Callable[..., CheckedProject]
) -> None:
    suppress_is(kept(says=True))
    project = compiled(TOPICS, TOPOLOGY)
    stores = [each.name for each in resources_of(project.loaded, project.model).of_kinds("store")]
    assert stores == ["latest", "quiet"]


def test_step_with_a_store_of_which_it_says_nothing_is_refused(
    suppress_is: Callable[[type[StepAction]], None], compiled: Callable[..., CheckedProject]
) -> None:
    suppress_is(kept(says=False))
    with pytest.raises(AssertionError, match="stores_result"):
        compiled(TOPICS, TOPOLOGY)


@dataclass(frozen=True)
class SplitStep(SuppressStep):
    """A step that makes two flows, as `branch` does."""

    def references(self) -> References:
        at = Position("topologies/t.yml", 1, 1)
        return References(flows=tuple(ScalarNode(name, name, at, FixedOrigin(at)) for name in ("left", "right")))


def test_flows_of_a_new_step_are_no_topics_that_the_topology_reads(
    suppress_is: Callable[[type[StepAction]], None], compiled: Callable[..., CheckedProject]
) -> None:
    suppress_is(SplitStep)
    project = compiled(TOPICS, TOPOLOGY.replace("    to: out\n", "  next: {from: left, to: out}\n"))
    (topology,) = resources_of(project.loaded, project.model).of_kinds("topology")
    assert topology.parents == ("topic.clicks",)


@pytest.mark.usefixtures("with_suppress")
def test_step_refuses_what_it_is_not_for(compiled: Callable[..., CheckedProject]) -> None:
    project = compiled(TOPICS, TOPOLOGY.replace("from: latest", "from: clicks"))
    assert [found.code for found in project.diagnostics] == ["HW501"]
