"""An edge on its way through the pipe, with the physical names of its columns at one point."""

from __future__ import annotations

from dataclasses import dataclass

from ...runtime.operators import declarations
from ..language.expressions import Ref
from ..language.judge import meta_name
from ..language.operations import Shape
from ..language.stores import columns_ddl
from ..types import quoted
from .liveness import NOW


@dataclass(frozen=True)
class LiveEdge:
    """A live edge: its name in the pipe, its shape, the value columns it carries, in order."""

    name: str
    shape: Shape
    value: tuple[str, ...]

    @property
    def physical_key(self) -> dict[str, str]:
        """The key columns' physical names, by their own."""
        return {name: f"key.{name}" if name in self.value else name for name in self.shape.key}

    @property
    def flow(self) -> declarations.Flow:
        """Its columns as the graph declares them."""
        types = {**self.shape.value, NOW: "timestamp"}
        return declarations.Flow(columns_ddl(self.shape.key), columns_ddl({name: types[name] for name in self.value}))

    def physical(self, ref: Ref) -> str:
        """The physical name of a key or value column."""
        return self.physical_key[ref.name] if ref.role == "key" else ref.name

    def sql(self, ref: Ref) -> str:
        """What SQL calls the column."""
        return meta_name(ref) if ref.role == "meta" else quoted(self.physical(ref))
