"""Casts."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from ....errors import HeadwaterError
from ...records.types import arrow_type, ddl
from ..nodes import Cast, Constant, Node
from ..promotion import DECIMAL, DOUBLE, INT, STRING, WHOLE, unproven
from .form import Forms, Reader, form
from .times import cast_of


def _cast(reader: Reader, tree: exp.Cast) -> Node:
    argument, wanted = reader.node(tree.this), _type_of(tree.args["to"])
    given = argument.data_type
    if isinstance(argument, Constant) and wanted == DOUBLE and given == DECIMAL:
        return Constant(float(argument.value), DOUBLE)
    if given == wanted:
        return argument
    timed = cast_of(argument, wanted)
    if timed is not None:
        return timed
    whole = given in WHOLE
    if whole and (wanted in (DOUBLE, STRING) or wanted in WHOLE[WHOLE.index(given) :]):
        return Cast(argument, wanted)
    if not (whole and wanted in WHOLE) and (given, wanted) != (DOUBLE, INT):
        unproven(f"a cast from {ddl(given)} to {tree.args['to'].sql('spark')} is only proven in Spark SQL")
    return Cast(argument, wanted, checked=True)


def _type_of(tree: exp.Expr) -> pa.DataType:
    try:
        return arrow_type(tree.sql("spark"))
    except HeadwaterError:
        unproven(f"the type {tree.sql('spark')} is only known to Spark SQL")


FORMS: Forms = {
    # sqlglot reads a `cast` of Spark as a TryCast. `try_cast` itself has one more part, which is refused.
    exp.TryCast: form(_cast, "this", "to"),
    exp.Cast: form(_cast, "this", "to"),
}
