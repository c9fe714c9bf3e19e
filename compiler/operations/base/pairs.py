"""Operations that read a second stream beside that of their flow, and how that stream comes to them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

from .checked import CheckedFlow, PlacedOperation, Repartition
from .operation import PythonOperation
from .shape import Shape


@dataclass(frozen=True)
class OtherStream:
    """The second stream: a topic or a flow. `reader`: the name of the edge on which it comes.

    `before`: as it is read; `after`: as it is joined, behind `repartition`, the repartition topic that brings it there
    if its key has changed.
    """

    name: str
    reader: str
    before: Shape
    after: Shape
    repartition: PlacedOperation | None = None

    @property
    def shared(self) -> str | None:
        """The flow at whose end the repartition topic stands, if other readers share it."""
        topic = self.repartition.operation if self.repartition is not None else None
        return topic.of if isinstance(topic, Repartition) else None


class StreamPair(PythonOperation):
    """An operation with two inputs: the stream of its flow, and another one."""

    @property
    @abstractmethod
    def second(self) -> OtherStream:
        """The other stream."""


def second_streams(flow: CheckedFlow) -> Iterator[OtherStream]:
    """Those of all operations of a flow, in order."""
    for placed in flow.operations:
        if isinstance(placed.operation, StreamPair):
            yield placed.operation.second


def read_by(flow: CheckedFlow) -> tuple[str, ...]:
    """All that a flow reads: its sources, and the streams that it joins."""
    return (*flow.sources, *(stream.name for stream in second_streams(flow)))
