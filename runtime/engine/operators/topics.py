"""Operators that read and write topics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from ...ir.topology import StepText, Topic
from .operator import EdgeColumns, Lineage, OnFlow, Operator, Place, Side, Touched, flow_of

if TYPE_CHECKING:
    from ..execution.node import Edges, TaskEpoch

SinkMode = Literal["append", "each_update", "per_epoch", "repartition"]
"""The mode of a sink, see `Sink`."""


@dataclass(frozen=True)
class Source(Operator):
    """Reads a topic into one or several edges. Of several edges, the first gets a record before the second.

    `columns`: the needed value columns. None: all. Of records with equal timestamps, those of the source that is
    declared first come first. The compiler puts tables before streams. `dead_letter`: the topic for records of this
    topic that a step could not process. None if no reader uses one. `start`: where a new topology begins to read the
    topic, see `starts.py`. None: at the first record.
    """

    topic: Topic
    into: str | tuple[str, ...]
    columns: tuple[str, ...] | None = None
    dead_letter: Topic | None = None
    start: str | None = None
    at: Place = ""

    reads = ()

    @property
    def edges(self) -> tuple[str, ...]:
        """The output edges."""
        return (self.into,) if isinstance(self.into, str) else self.into

    @property
    def makes(self) -> tuple[str, ...]:
        return self.edges

    @property
    def topics_read(self) -> tuple[Topic, ...]:
        return (self.topic,)

    @property
    def topics_written(self) -> tuple[Topic, ...]:
        return () if self.dead_letter is None else (self.dead_letter,)

    @property
    def text(self) -> str:
        """Empty for an internal topic of an application. The names of topics of a project differ from these."""
        writer = self.topic.writer
        return "" if writer is not None and self.topic.name.startswith(f"{writer}-") else f"from {self.topic.name}"

    @property
    def text_edges(self) -> tuple[str, ...]:
        return self.edges

    def output_columns(self, edges: Mapping[str, EdgeColumns], lineage: Lineage) -> Mapping[str, EdgeColumns]:
        """The needed columns of the topic, on each edge."""
        edge = lineage.topic(self.topic)
        if self.columns is not None:
            edge = replace(edge, value={name: edge.value[name] for name in self.columns})
        return dict.fromkeys(self.edges, edge)

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """Does nothing: the stage puts the records on the edges (`execution/source.py`)."""


@dataclass(frozen=True)
class Sink(OnFlow):
    """Appends to a topic. The edge has the topic's columns, and may have others.

    | mode | written records |
    |---|---|
    | append | a stream's records |
    | each_update | a table's changes: new rows and deletions |
    | per_epoch | the last change of each key, in the order of these changes; nothing for a row that came and went |
    | repartition | a stream's records, or a regrouped table's old and new rows, by the new key |

    A record's partition is that of its key (without the window). Records with a null key stay in the task's own
    partition. `per_epoch` recognizes a row that came and went only if changes include old rows.

    In a repartition topic, records with a null key are dropped and counted unless `keep_null_keys` is set. This applies
    to records of a stream and rows of a table (`of`). A table's deletion is written as its old row, which leaves its
    group. The deletion of a row that did not exist is not written. An old row has the time of the change. Old and new
    rows of the same group are marked, so that the group is updated once.
    """

    flow: str
    topic: Topic
    mode: SinkMode = "append"
    keep_null_keys: bool = False
    of: Side = "stream"
    at: Place = ""

    makes = ()

    @property
    def touches(self) -> Touched:
        """All input: it is written, or dropped and counted."""
        return Touched(before=self.reads)

    @property
    def topics_written(self) -> tuple[Topic, ...]:
        return (self.topic,)

    @property
    def text(self) -> str:
        return "" if self.mode == "repartition" else f"to {self.topic.name}"

    @property
    def settings(self) -> tuple[tuple[str, str], ...]:
        """`emit`, as it applies to the topic.

        A table with one change per epoch emits all changes if a later step needs them or may fail.
        """
        return (("emit", self.mode),) if self.mode in ("each_update", "per_epoch") else ()

    def output_columns(self, edges: Mapping[str, EdgeColumns], lineage: Lineage) -> Mapping[str, EdgeColumns]:
        """No edges."""
        return {}

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        from ..execution.source import write

        write(self, edges, epoch)


@dataclass(frozen=True)
class RoutedSink(OnFlow):
    """Appends each record of a stream to that one of several topics which the column `by` names.

    `by`: the physical name of a string column. A record fails if its column is null or names none of `topics`. Each
    topic has the flow's columns, and gets its records as from a `Sink` that appends. `by_itself`: as of `Call`.
    """

    flow: str
    by: str
    topics: tuple[Topic, ...]
    at: Place = ""
    by_itself: bool = False

    makes = ()

    @property
    def touches(self) -> Touched:
        """All input: it is written."""
        return Touched(before=self.reads)

    @property
    def topics_written(self) -> tuple[Topic, ...]:
        return self.topics

    @property
    def text(self) -> str:
        return f"route by {self.by}"

    def texts(self) -> Iterator[StepText]:
        """Its `text`, and that of a sink for each topic, by name: their order in the file makes no difference."""
        texts = (self.text, *(f"to {name}" for name in sorted(topic.name for topic in self.topics)))
        return (StepText(flow_of(self.flow), text, str(self.at)) for text in texts)

    def output_columns(self, edges: Mapping[str, EdgeColumns], lineage: Lineage) -> Mapping[str, EdgeColumns]:
        """No edges."""
        return {}

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """Raises EachFailedError."""
        from ..execution.source import write_routed

        write_routed(self, edges, epoch)


def topics_written(nodes: Sequence[Operator]) -> tuple[Topic, ...]:
    """The topics that operators write, in their order. The dead-letter topics of sources come last."""
    ordered = sorted(nodes, key=lambda node: bool(node.topics_read))
    return tuple({topic.name: topic for node in ordered for topic in node.topics_written}.values())
