"""What a step of the language is: an entry of `steps:`, built from the YAML and checked against what comes to it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

from ...language.reader import Reader
from ...reading.nodes import Node, Scalar
from .context import FlowContext, StepPlace
from .shape import Shape


@dataclass(frozen=True)
class References:
    """What a step names: the tables that it joins, its store, the flows that it makes."""

    tables: tuple[Scalar, ...] = ()
    stores: tuple[Scalar, ...] = ()
    flows: tuple[Scalar, ...] = ()


@dataclass(frozen=True)
class Refusal:
    """Why a step cannot have what comes to it."""

    code: str
    message: str
    hint: str


class StepAction(ABC):
    """What a step does, as the file says it. Each kind of step is a frozen dataclass and has all of these parts."""

    @classmethod
    @abstractmethod
    def read(cls, node: Node, reader: Reader) -> Self | None:
        """The step from what stands behind its word; None where its shape is wrong or it has been reported."""

    @abstractmethod
    def references(self) -> References:
        """The tables, stores and flows that it names."""

    @abstractmethod
    def refusal(self, word: str, shape: Shape) -> Refusal | None:
        """Why it cannot have an input of this kind: a stream or a table whose columns are known."""

    @property
    @abstractmethod
    def passes_tombstones(self) -> bool:
        """Whether deletions of rows that were not there do it no harm. Behind a filter of a table there are some."""

    @abstractmethod
    def check(self, context: FlowContext, step: Step, shape: Shape, following: Step | None) -> Shape:
        """Check it against the shape of its input, add its operations to `context`, and give the shape behind it.

        Where something is wrong, it is reported, and the shape is as much as is known.
        """


@dataclass(frozen=True)
class Step(StepPlace):
    """One step: its place, and what it does (None where that was reported)."""

    action: StepAction | None


def streams_only(word: str, shape: Shape) -> Refusal | None:
    """The refusal of tables."""
    if not shape.is_table:
        return None
    return Refusal("HW501", f"'{word}' is for streams; this is a table.", "Put `to_stream` before it.")
