"""`process`: a class of the project processes records one by one, uses stores, and forwards records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from ...runtime.engine.operators.operator import Flow
from ...runtime.engine.operators.process import Process
from ...runtime.ir.functions import PythonFunction
from ...runtime.ir.topology import Store
from ..entries import Columns, Reader, mapping, named, scalar, scalars
from ..reading.source import MappingNode, Node, ScalarNode
from .base.context import FlowContext, References, Step, StepAction
from .base.operation import Description, Processor, Splitting
from .base.site import PythonLayout, Rekey, Shape, Site
from .parts.processors import check_processor, processor_name, processor_store


@dataclass(frozen=True)
class Forwarding:
    """The columns that a processor forwards to a flow.

    `flow`: None for the processor's own flow. `key`, `value`: declared columns; None for those of its input.
    """

    flow: ScalarNode | None
    key: Columns | None
    value: Columns | None

    @classmethod
    def read(cls, node: MappingNode, reader: Reader, flow: ScalarNode | None = None) -> Self:
        """Read an entry with `key` and `value`."""
        sides = (reader.declared(mapping(node, side)) if side in node else None for side in ("key", "value"))
        return cls(flow, *sides)

    def shape(self, context: FlowContext, step: Step, before: Shape) -> Shape:
        """The shape of forwarded records. A declared key counts as a change of the key, even with the same columns."""
        after = before
        if self.value is not None:
            after = after.with_value({name: column.type for name, column in self.value.items()})
        if self.key is None:
            return after
        for column in self.key.values():
            context.rejects_map(column.type, column.name.position, f"'{column.name.text}'")
        rekey = Rekey(context.name.text, step.name.text if step.name else None, step.word.position)
        key = {name: column.type for name, column in self.key.items()}
        return replace(after, key=key, windowed=False, rekey=rekey)


@dataclass(frozen=True)
class ProcessStep(StepAction):
    """`process:`. With `flows` it is the last step of its flow, which continues as these flows."""

    function: ScalarNode
    stores: tuple[ScalarNode, ...]
    options: MappingNode | None
    own: Forwarding
    flows: tuple[Forwarding, ...]

    @classmethod
    def read(cls, node: Node, reader: Reader) -> Self | None:
        function = scalar(node, "function") if isinstance(node, MappingNode) else None
        if function is None or not isinstance(node, MappingNode):
            return None
        flows = tuple(Forwarding.read(body, reader, name) for name, body in named(node, "flows"))
        own = Forwarding.read(node, reader)
        for side, columns in (("key", own.key), ("value", own.value)):
            if flows and columns is not None:
                message = f"With `flows` each flow has its own columns, so '{side}' beside them has no effect."
                reader.diagnostics.add("HW210", node.key_position(side), message, "Move it into the flows.")
        return cls(function, tuple(scalars(node.get("stores"))), mapping(node, "options"), own, flows)

    def references(self) -> References:
        flows = tuple(forwarding.flow for forwarding in self.flows if forwarding.flow is not None)
        return References(stores=self.stores, flows=flows, shares=True)

    def check(self, context: FlowContext, step: Step, shape: Shape, following: Step | None) -> Shape:
        """Require a class with `process` and with the options as parameters, and stores with columns."""
        options = self.options.to_python() if self.options is not None else {}
        processor = context.functions.find(self.function)
        fits = processor is not None and check_processor(context, self.function, processor.loaded, self.options)
        stores = [processor_store(context, name, shape.partitions) for name in self.stores]
        shapes = [forwarding.shape(context, step, shape) for forwarding in self.flows or (self.own,)]
        for forwarding, after in zip(self.flows, shapes, strict=False):
            if forwarding.flow is not None:
                context.topology.shapes.setdefault(forwarding.flow.text, after)
        if processor is None or not fits or None in stores or shape.open:
            return shapes[0]
        processing = Processing(
            processor_name(context, step),
            processor.function,
            tuple(forwarding.flow.text for forwarding in self.flows if forwarding.flow is not None),
            tuple(shapes),
            tuple(store for store in stores if store is not None),
            options,
            hasattr(processor.loaded, "process_batch"),
        )
        return context.add(processing, shape, shapes[0], step)


@dataclass(frozen=True)
class Processing(Splitting):
    """Calls a processor of the project with records.

    `into`: its `flows`; empty if it forwards to its own flow. `shapes`: of these flows, or of its own. `batches`: it
    has `process_batch`, which gets many records at once.
    """

    name: str
    function: PythonFunction
    into: tuple[str, ...]
    shapes: tuple[Shape, ...]
    stores: tuple[Store, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    batches: bool = False

    has_effect = True
    null_keys = "kept"

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        """One node, as for a processor of Kafka Streams, whatever flows it forwards to."""
        stores = tuple(store.name for store in self.stores)
        return Description(f"process by {self.function.name}", (Processor("KSTREAM-PROCESSOR", stores=stores),))

    def in_python(self, site: Site) -> PythonLayout:
        edge = site.input
        site.declare(*self.stores)
        names = self.into or (edge.name,)
        outputs = zip(names, site.outputs, strict=True)
        edges = tuple(
            replace(edge, name=name, shape=output.shape, value=tuple(output.shape.value)) for name, output in outputs
        )
        input_columns = replace(edge, value=tuple(edge.shape.value)).flow
        flows = {output.name: output.flow for output in edges}
        into: Mapping[str, Flow] = {} if not self.into and flows == {edge.name: input_columns} else flows
        node = Process(edge.name, self.function, self.name, into, bool(self.into), self.stores, self.options, site.at)
        return PythonLayout((node,), edges)
