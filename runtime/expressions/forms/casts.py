"""Casts."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
from sqlglot import exp

from ....errors import HeadwaterError
from ...records.types import arrow_type, ddl
from ..functions.casts import booleans, doubles, long_numbers, whole_numbers
from ..functions.decimals import as_decimal, as_whole
from ..nodes import BOOLEAN, Call, Cast, Node
from ..promotion import BIGINT, DOUBLE, STRING, WHOLE, as_type, is_decimal, unproven
from ..trying import Parsed, Tried
from .form import Forms, Reader, form
from .times import cast_of

_PLAIN = 6
"""So many digits may be behind the point of a decimal that is written as a text."""


def _cast(reader: Reader, tree: exp.Cast) -> Node:
    argument, wanted = reader.node(tree.this), _type_of(tree.args["to"])
    if argument.data_type == wanted:
        return argument
    timed = cast_of(argument, wanted)
    if timed is not None and tree.args.get("safe"):
        unproven("`try_cast` of dates and timestamps is only proven in Spark SQL")
    node = timed or _converted(argument, wanted)
    if node is None:
        written = tree.args["to"].sql("spark")
        unproven(f"a cast from {ddl(argument.data_type)} to {written} is only proven in Spark SQL")
    if not tree.args.get("safe"):
        return node
    if argument.may_fail:
        unproven("which errors `try_cast` catches is only known to Spark SQL")
    return Tried(node)


def _converted(argument: Node, wanted: pa.DataType) -> Node | None:
    """A cast to another type; None where it is not proven."""
    given = argument.data_type
    if is_decimal(argument) or pa.types.is_decimal128(wanted):
        return _decimal(argument, wanted)
    if given in WHOLE and wanted in WHOLE:
        return Cast(argument, wanted, checked=WHOLE.index(wanted) < WHOLE.index(given))
    if given in (*WHOLE, BOOLEAN) and wanted in (*WHOLE, DOUBLE, BOOLEAN, STRING):
        return Cast(argument, wanted)
    if given == DOUBLE and wanted == BIGINT:
        return Call(long_numbers, (argument,), BIGINT, checked=True)
    if given == DOUBLE and wanted in WHOLE:
        return Cast(argument, wanted, checked=True)
    if given == DOUBLE and wanted == BOOLEAN:
        return Cast(argument, wanted)
    if given != STRING or argument.may_fail:
        return None
    if wanted in WHOLE:
        return Parsed(partial(whole_numbers, data_type=wanted), argument, wanted)
    if wanted == DOUBLE:
        return Parsed(doubles, argument, DOUBLE)
    return Parsed(booleans, argument, BOOLEAN) if wanted == BOOLEAN else None


def _decimal(argument: Node, wanted: pa.DataType) -> Node | None:
    if pa.types.is_decimal128(wanted):
        known = argument.data_type in WHOLE or is_decimal(argument)
        return Call(partial(as_decimal, data_type=wanted), (argument,), wanted, checked=True) if known else None
    if wanted in WHOLE:
        return Call(partial(as_whole, data_type=wanted), (argument,), wanted, checked=True)
    if wanted == DOUBLE:
        return as_type(argument, DOUBLE)
    # Behind more digits the texts of small numbers have an exponent in Arrow, but none in Spark.
    return Cast(argument, STRING) if wanted == STRING and argument.data_type.scale <= _PLAIN else None


def _type_of(tree: exp.Expr) -> pa.DataType:
    try:
        return arrow_type(tree.sql("spark"))
    except HeadwaterError:
        unproven(f"the type {tree.sql('spark')} is only known to Spark SQL")


FORMS: Forms = {
    # sqlglot reads a `cast` of Spark as a TryCast; one that is `safe` is a `try_cast`.
    exp.TryCast: form(_cast, "this", "to", "safe"),
    exp.Cast: form(_cast, "this", "to"),
}
