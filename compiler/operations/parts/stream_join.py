"""The operation of a `join` of two streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ....runtime.operators.declarations import StreamJoin, TableHow
from ....runtime.topology import Store
from ..base.operation import EVERY_CHANGE, Description, NullKeys, Processor, TableUse
from ..base.pairs import OtherStream, StreamPair
from ..base.shape import Shape
from ..base.site import PythonLayout, Site


@dataclass(frozen=True)
class JoiningStreams(StreamPair):
    """Joins the records of two streams. `values`: new column -> column of the other one.

    `unmatched`: keeps those without a match, of a left or outer join.
    """

    other: OtherStream
    how: TableHow
    this_store: Store
    other_store: Store
    unmatched: Store | None
    values: Mapping[str, str]

    has_effect = True

    @property
    def second(self) -> OtherStream:
        return self.other

    @property
    def null_keys(self) -> NullKeys:
        """Those of the other side are dropped in a left join, but they move its stream time, as in Kafka Streams."""
        return "dropped" if self.how == "inner" else "kept"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """A store has all columns of its side."""
        return offered

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """Its inputs are never tables."""
        return EVERY_CHANGE

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        """The nodes that Kafka's builder makes: a store for each side, a lookup from each, and their union."""
        waiting = () if self.unmatched is None else (self.unmatched.name,)
        this, other = self.this_store.name, self.other_store.name
        roles = (
            "KSTREAM-OUTERTHIS" if self.how == "outer" else "KSTREAM-JOINTHIS",
            "KSTREAM-JOINOTHER" if self.how == "inner" else "KSTREAM-OUTEROTHER",
        )
        windowed = tuple(Processor("KSTREAM-WINDOWED", stores=(name,)) for name in (this, other))
        joins = (Processor(roles[0], stores=(other, *waiting)), Processor(roles[1], stores=(this, *waiting)))
        text = f"{self.how} join stream {self.other.name}"
        return Description(text, (Processor("KSTREAM-MERGE"),), inputs=(windowed, joins))

    def in_python(self, site: Site) -> PythonLayout:
        edge, other = site.inputs
        for store in (self.this_store, self.other_store, self.unmatched):
            if store is not None:
                site.declared.stores[store.name] = store
        values = {new: old for new, old in self.values.items() if new in site.output.needed}
        node = StreamJoin(
            edge.name, other.name, self.this_store, self.other_store, self.how, values, self.unmatched, site.at
        )
        stored = tuple(edge.shape.value)
        value = (*stored, *(name for name in values if name not in stored))
        return PythonLayout((node,), (replace(edge, shape=site.output.shape, value=value),))
