"""Functions of texts."""

from __future__ import annotations

import pyarrow.compute as pc
from sqlglot import exp

from ..nodes import Call, Constant, Node
from ..promotion import INT, STRING, unproven_of
from .form import Forms, Reader, form


def _concat(reader: Reader, tree: exp.Concat | exp.DPipe) -> Node:
    parts = tree.expressions if isinstance(tree, exp.Concat) else (tree.this, tree.expression)
    arguments = tuple(map(reader.node, parts))
    if any(each.data_type != STRING or each.may_fail for each in arguments):
        unproven_of(tree, arguments)
    return Call(pc.binary_join_element_wise, (*arguments, Constant("", STRING)), STRING)


def _length(reader: Reader, tree: exp.Length) -> Node:
    argument = reader.node(tree.this)
    if argument.data_type != STRING:
        unproven_of(tree, (argument,))
    return Call(pc.utf8_length, (argument,), INT)


FORMS: Forms = {
    exp.Concat: form(_concat, "expressions", "safe"),
    exp.DPipe: form(_concat, "this", "expression", "safe"),
    exp.Length: form(_length, "this"),
}
