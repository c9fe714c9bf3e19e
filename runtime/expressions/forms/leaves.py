"""Columns and literals, and what is in parentheses."""

from __future__ import annotations

from decimal import Decimal

from sqlglot import exp

from ..functions.decimals import type_of_literal
from ..nodes import BOOLEAN, Column, Constant, Node
from ..promotion import BIGINT, DOUBLE, INT, NULL, STRING, unproven
from .form import Forms, Reader, form


def _paren(reader: Reader, tree: exp.Paren) -> Node:
    return reader.node(tree.this)


def _column(reader: Reader, tree: exp.Column) -> Node:
    name = tree.name
    if name not in reader.columns or not isinstance(tree.this, exp.Identifier):
        unproven(f"`{tree.sql('spark')}` is no column here")
    return Column(name, reader.columns[name])


def _literal(reader: Reader, tree: exp.Literal) -> Node:  # noqa: ARG001
    text: str = tree.this
    if tree.is_string:
        return Constant(text, STRING)
    if text.isdigit():
        number = int(text)
        if number > 2**63 - 1:
            unproven(f"the number {text} is only known to Spark SQL")
        return Constant(number, INT if number < 2**31 else BIGINT)
    if "e" in text.lower():
        return Constant(float(text), DOUBLE)
    data_type = type_of_literal(Decimal(text))
    if data_type is None:
        unproven(f"the number {text} is only known to Spark SQL")
    return Constant(Decimal(text), data_type)


def _boolean(reader: Reader, tree: exp.Boolean) -> Node:  # noqa: ARG001
    return Constant(bool(tree.this), BOOLEAN)


def _null(reader: Reader, tree: exp.Null) -> Node:  # noqa: ARG001
    return Constant(None, NULL)


FORMS: Forms = {
    exp.Paren: form(_paren, "this"),
    exp.Column: form(_column, "this"),
    exp.Literal: form(_literal, "this", "is_string"),
    exp.Boolean: form(_boolean, "this"),
    exp.Null: form(_null),
}
