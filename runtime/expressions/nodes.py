"""Nodes of an expression that a task computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..records.arrays import Bools, repeat
from .kernels import (
    Batch,
    Value,
    by_row,
    compared,
    divided,
    either,
    of_arguments,
    positive_remainder,
    remainder,
    within,
    without,
)

# The nodes of an expression. Each is frozen data that is sent to where tasks run, and evaluates on a batch there.

BOOLEAN = pa.bool_()


class Node(Protocol):
    """An expression. `data_type`: of its values. `may_fail`: whether there are rows for which it may fail."""

    @property
    def data_type(self) -> pa.DataType: ...  # noqa: D102

    @property
    def may_fail(self) -> bool: ...  # noqa: D102

    def of(self, batch: Batch) -> Value:
        """Its values for the rows of a batch."""


@dataclass(frozen=True)
class Column:
    """A column, by its physical name."""

    name: str
    data_type: pa.DataType
    may_fail: bool = False

    def of(self, batch: Batch) -> Value:
        """See `Node`."""
        return Value(batch.columns[self.name])


@dataclass(frozen=True)
class Constant:
    """A value that is written down."""

    value: Any
    data_type: pa.DataType
    may_fail: bool = False

    def of(self, batch: Batch) -> Value:  # noqa: ARG002
        """See `Node`."""
        return Value(pa.scalar(self.value, self.data_type))


@dataclass(frozen=True)
class Call:
    """A function of columns and scalars, most often one of Arrow's, that gives null if an argument is null.

    `checked`: it raises ArrowInvalid for some rows. It is sent to tasks, so it is a function of a module.
    """

    kernel: Callable[..., Any]
    arguments: tuple[Node, ...]
    data_type: pa.DataType
    checked: bool = False

    @property
    def may_fail(self) -> bool:
        """See `Node`."""
        return self.checked or any(each.may_fail for each in self.arguments)

    def of(self, batch: Batch) -> Value:
        """See `Node`."""
        return _computed(self, self.arguments, self.kernel, batch, self.checked)


@dataclass(frozen=True)
class Cast:
    """A value as another type. `checked`: some values have no place in that type, which is an error of their rows.

    A double loses its fraction, as Spark SQL cuts it off.
    """

    argument: Node
    data_type: pa.DataType
    checked: bool = False

    @property
    def may_fail(self) -> bool:
        """See `Node`."""
        return self.checked or self.argument.may_fail

    def of(self, batch: Batch) -> Value:
        """See `Node`."""
        return _computed(self, (self.argument,), self._cast, batch, self.checked)

    def _cast(self, data: pa.Array | pa.Scalar) -> Any:
        if not self.checked:
            return pc.cast(data, self.data_type, safe=False)
        return pc.cast(pc.trunc(data) if pa.types.is_floating(data.type) else data, self.data_type)


@dataclass(frozen=True)
class Comparison:
    """Two values of one type, compared by a kernel of Arrow."""

    kernel: Callable[..., Any]
    left: Node
    right: Node
    data_type: pa.DataType = BOOLEAN

    @property
    def may_fail(self) -> bool:
        """See `Node`."""
        return self.left.may_fail or self.right.may_fail

    def of(self, batch: Batch) -> Value:
        """See `Node`."""
        return _computed(self, (self.left, self.right), partial(compared, self.kernel), batch)


@dataclass(frozen=True)
class NullSafeEqual:
    """`<=>`: never null; two nulls are equal. Neither side may fail."""

    left: Node
    right: Node
    data_type: pa.DataType = BOOLEAN
    may_fail: bool = False

    def of(self, batch: Batch) -> Value:
        """See `Node`."""
        left, right = self.left.of(batch), self.right.of(batch)
        first, second = left.is_null(batch.rows), right.is_null(batch.rows)
        equal = Value(compared(pc.equal, left.data, right.data))
        return Value(pa.array(np.where(first | second, first & second, equal.is_true(batch.rows))))


@dataclass(frozen=True)
class Division:
    """`/` of doubles, `div` of bigints, `%` and `pmod` of two of a type: they fail where the divisor is 0."""

    word: Literal["/", "div", "%", "pmod"]
    left: Node
    right: Node
    data_type: pa.DataType
    may_fail: bool = True

    def of(self, batch: Batch) -> Value:
        """See `Node`. Spark computes the divisor first."""
        right, left = self.right.of(batch), self.left.of(batch)
        failed = of_arguments([right, left], batch.rows)
        found = divided(_DIVISIONS[self.word], left.array(batch.rows), right.array(batch.rows), batch.rows)
        return Value(found.data, either(failed, found.failed))


_DIVISIONS: Mapping[str, Callable[..., Any]] = {
    "/": pc.divide,
    "div": pc.divide_checked,
    "%": remainder,
    "pmod": positive_remainder,
}


@dataclass(frozen=True)
class Logic:
    """`and`, `or` of three values: true, false, null. The right side is not computed where the left one decides."""

    word: Literal["and", "or"]
    left: Node
    right: Node
    data_type: pa.DataType = BOOLEAN

    @property
    def may_fail(self) -> bool:
        """See `Node`."""
        return self.left.may_fail or self.right.may_fail

    def of(self, batch: Batch) -> Value:
        """See `Node`."""
        left, right = self.left.of(batch), self.right.of(batch)
        failed, decides = left.failed, pa.scalar(self.word == "or")
        if right.failed is not None:
            decided = Value(pc.equal(left.array(batch.rows), decides)).is_true(batch.rows)
            failed = either(failed, within(right.failed, ~decided))
        kernel = pc.and_kleene if self.word == "and" else pc.or_kleene
        data = kernel(left.data, right.data)
        return Value(data if failed is None else without(data, failed), failed)


@dataclass(frozen=True)
class IsNull:
    """Whether a value is null, which may not fail."""

    argument: Node
    data_type: pa.DataType = BOOLEAN
    may_fail: bool = False

    def of(self, batch: Batch) -> Value:
        """See `Node`."""
        return Value(pa.array(self.argument.of(batch).is_null(batch.rows)))


@dataclass(frozen=True)
class OneOf:
    """`in` a list of constants. `has_null`: null is one of them, so the answer is true or null."""

    argument: Node
    values: tuple[Any, ...]
    has_null: bool = False
    data_type: pa.DataType = BOOLEAN

    @property
    def may_fail(self) -> bool:
        """See `Node`."""
        return self.argument.may_fail

    def of(self, batch: Batch) -> Value:
        """See `Node`."""
        return _computed(self, (self.argument,), self._is_in, batch)

    def _is_in(self, data: pa.Array | pa.Scalar) -> Any:
        found = pc.is_in(data, pa.array(self.values, self.argument.data_type))
        unknown = pc.or_(pc.invert(found), pa.scalar(False)) if self.has_null else pa.scalar(False)
        return pc.if_else(pc.or_(pc.is_null(data), unknown), pa.scalar(None, pa.bool_()), found)


@dataclass(frozen=True)
class Choice:
    """The value of the first case whose condition is true; otherwise `default`. No other value is computed."""

    cases: tuple[tuple[Node, Node], ...]
    default: Node
    data_type: pa.DataType

    @property
    def may_fail(self) -> bool:
        """See `Node`."""
        return any(each.may_fail for case in self.cases for each in case) or self.default.may_fail

    def of(self, batch: Batch) -> Value:
        """See `Node`."""
        left: Bools = np.ones(batch.rows, np.bool_)
        failed: Bools | None = None
        chosen = []
        for condition, node in self.cases:
            asked, value = condition.of(batch), node.of(batch)
            failed = either(failed, within(asked.failed, left))
            holds = left & asked.is_true(batch.rows)
            failed = either(failed, within(value.failed, holds))
            chosen.append((holds, value))
            left &= ~holds
        default = self.default.of(batch)
        failed = either(failed, within(default.failed, left))
        data = default.array(batch.rows)
        for holds, value in reversed(chosen):
            data = pc.if_else(pa.array(holds), value.data, data)
        return Value(without(data, failed), failed)


@dataclass(frozen=True)
class Coalesce:
    """The first value that is not null. Those behind it are not computed."""

    arguments: tuple[Node, ...]
    data_type: pa.DataType

    @property
    def may_fail(self) -> bool:
        """See `Node`."""
        return any(each.may_fail for each in self.arguments)

    def of(self, batch: Batch) -> Value:
        """See `Node`."""
        left: Bools = np.ones(batch.rows, np.bool_)
        failed: Bools | None = None
        values = []
        for node in self.arguments:
            value = node.of(batch)
            failed = either(failed, within(value.failed, left))
            values.append(value.array(batch.rows))
            left &= value.is_null(batch.rows)
        return Value(without(pc.coalesce(*values), failed), failed)


def _computed(
    node: Node, arguments: tuple[Node, ...], kernel: Callable[..., Any], batch: Batch, checked: bool = False
) -> Value:
    """What a kernel gives for arguments, whose failures are those of the whole. `checked`: it may fail itself."""
    values = [each.of(batch) for each in arguments]
    failed = of_arguments(values, batch.rows)
    if checked:
        found = by_row(kernel, [each.data for each in values], batch.rows, node.data_type)
        return Value(found.data, either(failed, found.failed))
    data = kernel(*(each.data for each in values))
    if isinstance(data, pa.Scalar):
        return Value(data if failed is None else without(repeat(data, batch.rows), failed), failed)
    return Value(data if failed is None else without(data, failed), failed)


# A node for functions that say themselves for which rows they fail.


@dataclass(frozen=True)
class Function:
    """What a function makes of arrays, one of each argument.

    It gives null, and does not fail, where an argument is null. If it does otherwise, no argument may fail. `fails`:
    whether there are rows for which it fails itself. It is sent to tasks, so it is a function of a module, or a
    `partial` of one.
    """

    function: Callable[..., Value]
    arguments: tuple[Node, ...]
    data_type: pa.DataType
    fails: bool = False

    @property
    def may_fail(self) -> bool:
        """See `Node`."""
        return self.fails or any(each.may_fail for each in self.arguments)

    def of(self, batch: Batch) -> Value:
        """See `Node`."""
        values = [each.of(batch) for each in self.arguments]
        found = self.function(*(each.array(batch.rows) for each in values))
        return Value(found.data, either(of_arguments(values, batch.rows), found.failed))


# Nodes of what gives null in place of an error, and of what is read of texts, which tells by a null that it failed.


@dataclass(frozen=True)
class Tried:
    """A value, null where computing it fails. Only its outermost function may fail, not the arguments of that."""

    tried: Node
    may_fail: bool = False

    @property
    def data_type(self) -> pa.DataType:
        """See `Node`."""
        return self.tried.data_type

    def of(self, batch: Batch) -> Value:
        """See `Node`."""
        return Value(self.tried.of(batch).data)


@dataclass(frozen=True)
class Parsed:
    """What `kernel` reads of texts. It fails where that is null, but the text is not, which may not fail."""

    kernel: Callable[[pa.Array], pa.Array]
    text: Node
    data_type: pa.DataType
    may_fail: bool = True

    def of(self, batch: Batch) -> Value:
        """See `Node`."""
        text = self.text.of(batch)
        data = self.kernel(text.array(batch.rows))
        failed = Value(data).is_null(batch.rows) & ~text.is_null(batch.rows)
        return Value(data, failed if failed.any() else None)
