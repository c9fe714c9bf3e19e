"""What a step of the language is: an entry of `steps:`, read from the YAML and checked against its input."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from ...entries.reader import Reader
from ...reading.nodes import Node, Scalar
from .context import FlowContext, StepPlace
from .shape import Shape


@dataclass(frozen=True)
class References:
    """The names in a step: tables and streams that it joins, its stores, flows that it makes.

    `implied`: of a step with several stores those that it does not name, each as a name, or None for the flow's, and
    what is put behind it. `stores_result`: whether it keeps its result in a store: the one of `stores`, or one that is
    named after the flow, with `store_ending` behind. `shares`: whether other steps that do so too may have its stores.
    """

    tables: tuple[Scalar, ...] = ()
    streams: tuple[Scalar, ...] = ()
    stores: tuple[Scalar, ...] = ()
    flows: tuple[Scalar, ...] = ()
    implied: tuple[tuple[Scalar | None, str], ...] = ()
    stores_result: bool = False
    store_ending: str = ""
    shares: bool = False


@dataclass(frozen=True)
class Refusal:
    """Why a step cannot have this input."""

    code: str
    message: str
    hint: str


class StepAction(ABC):
    """The action of a step. Each kind of step is a frozen dataclass and has all of these parts.

    `kinds`: other classes whose steps have the same word.
    """

    kinds: ClassVar[tuple[type[StepAction], ...]] = ()

    @classmethod
    @abstractmethod
    def read(cls, node: Node, reader: Reader) -> StepAction | None:
        """Read the step from the value of its key; None if it has the wrong shape or an error was reported.

        It may be one of `kinds`.
        """

    @abstractmethod
    def references(self) -> References:
        """The tables, stores and flows that it names."""

    @abstractmethod
    def refusal(self, word: str, shape: Shape) -> Refusal | None:
        """Why it cannot have this input, a stream or a table with known columns; None if it can."""

    @property
    @abstractmethod
    def passes_tombstones(self) -> bool:
        """Whether it tolerates deletions of rows that did not exist. A table has such deletions after a filter."""

    @abstractmethod
    def check(self, context: FlowContext, step: Step, shape: Shape, following: Step | None) -> Shape:
        """Check it against the shape of its input, add its operations to `context`, and return the shape after it.

        Errors are reported. After one, the returned shape has what is known.
        """


@dataclass(frozen=True)
class Step(StepPlace):
    """One step: its place, and its action (None if an error was reported). `was`: former names, the latest first."""

    action: StepAction | None
    was: tuple[Scalar, ...] = ()


def streams_only(word: str, shape: Shape) -> Refusal | None:
    """A refusal if the input is a table."""
    if not shape.is_table:
        return None
    return Refusal("HW501", f"'{word}' is for streams; this is a table.", "Put `to_stream` before it.")
