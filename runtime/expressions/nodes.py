"""The nodes of an expression: immutable objects that evaluate themselves on an Arrow batch inside a task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

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
    quotient,
    remainder,
    within,
    without,
)

# Nodes are frozen dataclasses. The driver builds them and sends them to the workers, which evaluate them on batches.

BOOLEAN = pa.bool_()


class Node:
    """An expression: a frozen dataclass. `data_type`: the type of its values. `fails`: whether it adds failures."""

    data_type: pa.DataType
    fails: bool = False

    @property
    def may_fail(self) -> bool:
        """Whether some row could make the expression fail, a part of it included."""
        return self.fails or any(each.may_fail for each in below(self))

    def of(self, batch: Batch) -> Value:
        """The values for the rows of a batch, with the rows that fail."""
        raise NotImplementedError


def below(value: Any) -> tuple[Node, ...]:
    """The nodes directly below a node, also those in its tuples."""
    parts = value if isinstance(value, tuple) else vars(value).values()
    return tuple(
        node
        for part in parts
        if isinstance(part, tuple | Node)
        for node in ((part,) if isinstance(part, Node) else below(part))
    )


@dataclass(frozen=True)
class Column(Node):
    """A column, by its physical name."""

    name: str
    data_type: pa.DataType

    def of(self, batch: Batch) -> Value:
        return Value(batch.columns[self.name])


@dataclass(frozen=True)
class Constant(Node):
    """A literal."""

    value: Any
    data_type: pa.DataType

    def of(self, batch: Batch) -> Value:
        return Value(pa.scalar(self.value, self.data_type))


@dataclass(frozen=True)
class Call(Node):
    """A kernel applied to arguments; null if an argument is null. Most kernels are Arrow's.

    `kernel`: takes arrays or scalars. It is pickled to workers, so it must be a function at module level. `fails`:
    the kernel raises ArrowInvalid for some values, such as an overflow.
    """

    kernel: Callable[..., Any]
    arguments: tuple[Node, ...]
    data_type: pa.DataType
    fails: bool = False

    def of(self, batch: Batch) -> Value:
        return _computed(self, self.arguments, self.kernel, batch, self.fails)


@dataclass(frozen=True)
class Cast(Node):
    """A cast to `data_type`. `fails`: a value that does not fit fails its row.

    The fraction of a double is truncated, as in Spark SQL.
    """

    argument: Node
    data_type: pa.DataType
    fails: bool = False

    def of(self, batch: Batch) -> Value:
        return _computed(self, (self.argument,), self._cast, batch, self.fails)

    def _cast(self, data: pa.Array | pa.Scalar) -> Any:
        if not self.fails:
            return pc.cast(data, self.data_type, safe=False)
        return pc.cast(pc.trunc(data) if pa.types.is_floating(data.type) else data, self.data_type)


@dataclass(frozen=True)
class Comparison(Node):
    """A comparison of two values of one type by an Arrow kernel, with Spark's order of NaN (see `compared`)."""

    kernel: Callable[..., Any]
    left: Node
    right: Node
    data_type: pa.DataType = BOOLEAN

    def of(self, batch: Batch) -> Value:
        return _computed(self, (self.left, self.right), partial(compared, self.kernel), batch)


@dataclass(frozen=True)
class NullSafeEqual(Node):
    """`<=>`: two nulls are equal, and the result is never null. Neither side may fail."""

    left: Node
    right: Node
    data_type: pa.DataType = BOOLEAN

    def of(self, batch: Batch) -> Value:
        left, right = self.left.of(batch), self.right.of(batch)
        first, second = left.is_null(batch.rows), right.is_null(batch.rows)
        equal = Value(compared(pc.equal, left.data, right.data))
        return Value(pa.array(np.where(first | second, first & second, equal.is_true(batch.rows))))


@dataclass(frozen=True)
class Division(Node):
    """`/` of doubles, `div` of int64s, `%` and `pmod` of two numbers of one type. A divisor of 0 fails the row."""

    word: Literal["/", "div", "%", "pmod"]
    left: Node
    right: Node
    data_type: pa.DataType
    fails: bool = True

    def of(self, batch: Batch) -> Value:
        # Spark computes the divisor first.
        right, left = self.right.of(batch), self.left.of(batch)
        failed = of_arguments([right, left], batch.rows)
        found = divided(_DIVISIONS[self.word], left.array(batch.rows), right.array(batch.rows), batch.rows)
        return Value(found.data, either(failed, found.failed))


@dataclass(frozen=True)
class Quotient(Node):
    """`/` of decimals. A divisor of 0 fails the row."""

    left: Node
    right: Node
    data_type: pa.DataType
    fails: bool = True

    def of(self, batch: Batch) -> Value:
        # Spark computes the divisor first.
        right, left = self.right.of(batch), self.left.of(batch)
        found = quotient(left.array(batch.rows), right.array(batch.rows), self.data_type)
        return Value(found.data, either(of_arguments([right, left], batch.rows), found.failed))


_DIVISIONS: Mapping[str, Callable[..., Any]] = {
    "/": pc.divide,
    "div": pc.divide_checked,
    "%": remainder,
    "pmod": positive_remainder,
}


@dataclass(frozen=True)
class Logic(Node):
    """`and`, `or` in three-valued logic. Failures of the right side do not count where the left side decides.

    `a <> 0 and b / a > 1D` with a = [0, 2, null], b = [6, 6, 6]:

        left    [False, True, null]
        right   [null,  True, null], fails for the rows [yes, no, no]
        data    [False, True, null]
        failed  None: in row 0 the left side is false, so Spark does not divide
    """

    word: Literal["and", "or"]
    left: Node
    right: Node
    data_type: pa.DataType = BOOLEAN

    def of(self, batch: Batch) -> Value:
        left, right = self.left.of(batch), self.right.of(batch)
        failed, decides = left.failed, pa.scalar(self.word == "or")
        if right.failed is not None:
            decided = Value(pc.equal(left.array(batch.rows), decides)).is_true(batch.rows)
            failed = either(failed, within(right.failed, ~decided))
        kernel = pc.and_kleene if self.word == "and" else pc.or_kleene
        data = kernel(left.data, right.data)
        return Value(data if failed is None else without(data, failed), failed)


@dataclass(frozen=True)
class IsNull(Node):
    """`is null`. The argument may not fail."""

    argument: Node
    data_type: pa.DataType = BOOLEAN

    def of(self, batch: Batch) -> Value:
        return Value(pa.array(self.argument.of(batch).is_null(batch.rows)))


@dataclass(frozen=True)
class OneOf(Node):
    """`in` with a list of constants. `has_null`: the list contains null, so a value that is not listed gives null.

    `a in (0, 1, null)` with a = [0, 2, null] gives [True, null, null].
    """

    argument: Node
    values: tuple[Any, ...]
    has_null: bool = False
    data_type: pa.DataType = BOOLEAN

    def of(self, batch: Batch) -> Value:
        return _computed(self, (self.argument,), self._is_in, batch)

    def _is_in(self, data: pa.Array | pa.Scalar) -> Any:
        found = pc.is_in(data, pa.array(self.values, self.argument.data_type))
        unknown = pc.or_(pc.invert(found), pa.scalar(False)) if self.has_null else pa.scalar(False)
        return pc.if_else(pc.or_(pc.is_null(data), unknown), pa.scalar(None, pa.bool_()), found)


@dataclass(frozen=True)
class Choice(Node):
    """`case when`: the value of the first case with a true condition, otherwise `default`.

    `cases`: pairs of condition and value. All nodes are computed for all rows, but only failures in rows that Spark
    would evaluate count. `case when a = 0 then 0D else b / a end` with a = [0, 2, null], b = [6, 6, 6]:

        default       [null, 3.0, null], fails for the rows [yes, no, no]
        left at end   [no, yes, yes]: rows that no case has taken
        data          [0.0, 3.0, null]
        failed        None
    """

    cases: tuple[tuple[Node, Node], ...]
    default: Node
    data_type: pa.DataType

    def of(self, batch: Batch) -> Value:
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
class Coalesce(Node):
    """`coalesce`: the first value that is not null. Failures of later arguments do not count in that row."""

    arguments: tuple[Node, ...]
    data_type: pa.DataType

    def of(self, batch: Batch) -> Value:
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
    """The result of a kernel. A failed argument fails the row. `checked`: the kernel itself may fail too."""
    values = [each.of(batch) for each in arguments]
    failed = of_arguments(values, batch.rows)
    if checked:
        found = by_row(kernel, [each.data for each in values], batch.rows, node.data_type)
        return Value(found.data, either(failed, found.failed))
    data = kernel(*(each.data for each in values))
    if isinstance(data, pa.Scalar):
        return Value(data if failed is None else without(repeat(data, batch.rows), failed), failed)
    return Value(data if failed is None else without(data, failed), failed)


# Functions that return their own mask of failed rows.


@dataclass(frozen=True)
class Function(Node):
    """A function of arrays, one for each argument, that returns a `Value`.

    `function`: gives null without failing where an argument is null; a function that does not must not get arguments
    that may fail. It is pickled to workers, so it must be a function at module level, or a `partial` of one. `fails`:
    whether the function itself fails for some rows.
    """

    function: Callable[..., Value]
    arguments: tuple[Node, ...]
    data_type: pa.DataType
    fails: bool = False

    def of(self, batch: Batch) -> Value:
        values = [each.of(batch) for each in self.arguments]
        found = self.function(*(each.array(batch.rows) for each in values))
        return Value(found.data, either(of_arguments(values, batch.rows), found.failed))


# `try_...` functions, which give null in place of an error, and casts of strings, where a null result is an error.


@dataclass(frozen=True)
class Tried(Node):
    """A value, or null where it fails. Only the outermost function of `tried` may fail, not the arguments of it."""

    tried: Node
    data_type: pa.DataType

    @property
    def may_fail(self) -> bool:
        return False

    def of(self, batch: Batch) -> Value:
        return Value(self.tried.of(batch).data)


@dataclass(frozen=True)
class Parsed(Node):
    """Strings parsed by `kernel`. A row fails if the kernel gives null for a string that is not null.

    The argument itself may not fail. `cast(s as int)` with s = ["1", "x", null]:

        data    [1, null, null]
        failed  [False, True, False]
    """

    kernel: Callable[[pa.Array], pa.Array]
    text: Node
    data_type: pa.DataType
    fails: bool = True

    def of(self, batch: Batch) -> Value:
        text = self.text.of(batch)
        data = self.kernel(text.array(batch.rows))
        failed = Value(data).is_null(batch.rows) & ~text.is_null(batch.rows)
        return Value(data, failed if failed.any() else None)
