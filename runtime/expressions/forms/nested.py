"""The forms of arrays, maps and structs, and of `from_json`."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from ...records.types import TypeSyntaxError, arrow_type, parse_columns
from .. import nested
from ..json.conversions import FromJson, pattern_of, struct
from ..kernels import Value
from ..misread import name_of
from ..nodes import BOOLEAN, Column, Constant, Function, Node
from ..promotion import COMPARED, INT, STRING, WHOLE, alike, as_type, is_constant, is_null, unproven, unproven_of
from .form import Forms, Reader, arguments_of, call, typed

# Arrays, structs and maps.

_INDEX = (pa.int8(), pa.int16(), INT)
_PLAIN_SEPARATOR = re.compile(r"[\w ,;:/=@#%&~<>!-]+", re.ASCII)
"""Separators that mean the same as a regular expression and as literal text."""


def _list(element: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", element))


def _column(reader: Reader, tree: exp.Column) -> Node:
    """A column, or a field of a struct column: `a.b.c`."""
    first, *fields = tree.parts
    if not isinstance(first, exp.Identifier) or first.name not in reader.columns:
        unproven(f"`{exp.Column(this=first.copy()).sql('spark')}` is no column here")
    node: Node = Column(first.name, reader.columns[first.name])
    for each in fields:
        node = _field_of(tree, node, each)
    return node


def _dot(reader: Reader, tree: exp.Dot) -> Node:
    return _field_of(tree, reader.node(tree.this), tree.expression)


def _field_of(tree: exp.Expr, node: Node, name: exp.Expr) -> Node:
    data_type = node.data_type
    if not pa.types.is_struct(data_type) or not isinstance(name, exp.Identifier):
        unproven(f"`{tree.sql('spark')}` is no field of a struct here")
    fits = [each for each in data_type if each.name.lower() == name.name.lower()]
    if len(fits) != 1 or fits[0].name != name.name:
        unproven(f"which field `{tree.sql('spark')}` is, is only known to Spark SQL")
    if isinstance(node, FromJson):
        node = node.only(name.name)
    index = node.data_type.get_field_index(name.name)
    return Function(partial(nested.field, index=index), (node,), fits[0].type)


def _struct(reader: Reader, tree: exp.Struct) -> Node:
    if not all(isinstance(each, exp.PropertyEQ) and isinstance(each.this, exp.Identifier) for each in tree.expressions):
        unproven("what the fields of this struct are called is only known to Spark SQL")
    nodes = tuple(reader.node(each.expression) for each in tree.expressions)
    _refuse_failing(tree, nodes)
    if not nodes or any(isinstance(each, Constant) for each in nodes):
        unproven_of(tree, nodes)
    names = [each.this.name for each in tree.expressions]
    data_type = pa.struct([pa.field(name, each.data_type) for name, each in zip(names, nodes, strict=True)])
    return Function(partial(nested.struct, data_type=data_type), nodes, data_type)


def _array(reader: Reader, tree: exp.Array) -> Node:
    if not tree.expressions:
        unproven("the type of `array()` is only known to Spark SQL")
    nodes = alike(tree, tuple(map(reader.node, tree.expressions)))
    _refuse_failing(tree, nodes)
    if nodes[0].data_type not in COMPARED:
        unproven_of(tree, nodes)
    data_type = _list(nodes[0].data_type)
    return Function(partial(nested.array, data_type=data_type), nodes, data_type)


def _refuse_failing(tree: exp.Expr, nodes: tuple[Node, ...]) -> None:
    """Raise UnprovenError if a part may fail: Spark may read another part without evaluating this one."""
    if any(each.may_fail for each in nodes):
        unproven(f"when Spark SQL computes what it puts in {name_of(tree)} is only known to it")


def _bracket(reader: Reader, tree: exp.Bracket) -> Node:
    if len(tree.expressions) != 1:
        unproven(f"`{tree.sql('spark')}` is only known to Spark SQL")
    data, index = reader.node(tree.this), reader.node(tree.expressions[0])
    if pa.types.is_map(data.data_type):
        return _of_key(tree, data, index)
    if not pa.types.is_list(data.data_type) or index.data_type not in _INDEX or is_null(index):
        unproven_of(tree, (data, index))
    if not isinstance(index, Constant):
        # If the type says that the array has no nulls, Spark treats a null index as out of range.
        unproven("what Spark SQL does with an index that is null is only known to it")
    return Function(nested.item, (data, index), data.data_type.value_type, fails=True)


def _element_at(reader: Reader, tree: exp.Anonymous) -> Node:
    data, place = arguments_of(reader, tree)
    if pa.types.is_map(data.data_type):
        return _of_key(tree, data, place)
    if not pa.types.is_list(data.data_type) or place.data_type != INT:
        unproven_of(tree, (data, place))
    if not isinstance(place, Constant) or not place.value:
        unproven_of(tree, (data, place))
    fails = tree.name.lower() == "element_at"
    found = partial(nested.element, place=place.value, fails=fails)
    return Function(found, (data,), data.data_type.value_type, fails)


def _of_key(tree: exp.Expr, data: Node, key: Node) -> Node:
    return Function(nested.of_key, (data, _sought(tree, data, data.data_type.key_type, key)), data.data_type.item_type)


def _sought(tree: exp.Expr, data: Node, data_type: pa.DataType, wanted: Node) -> Node:
    """The searched value, cast to the type of the elements or keys. Raises UnprovenError."""
    if isinstance(wanted, Constant) and wanted.data_type in WHOLE and data_type in WHOLE and wanted.value is not None:
        narrower = WHOLE.index(wanted.data_type) <= WHOLE.index(data_type)
        wanted = as_type(wanted, data_type) if narrower else wanted
    if wanted.data_type != data_type or data_type not in COMPARED or is_null(wanted):
        unproven_of(tree, (data, wanted))
    return wanted


def _map_contains_key(reader: Reader, tree: exp.Anonymous) -> Node:
    data, key = arguments_of(reader, tree)
    if not pa.types.is_map(data.data_type):
        unproven_of(tree, (data, key))
    return Function(nested.contains, (data, _sought(tree, data, data.data_type.key_type, key)), BOOLEAN)


def _array_contains(reader: Reader, tree: exp.Anonymous) -> Node:
    data, wanted = arguments_of(reader, tree)
    if not pa.types.is_list(data.data_type):
        unproven_of(tree, (data, wanted))
    return Function(nested.contains, (data, _sought(tree, data, data.data_type.value_type, wanted)), BOOLEAN)


def _slice(reader: Reader, tree: exp.Anonymous) -> Node:
    data, place, many = arguments_of(reader, tree)
    numbers = [each.value for each in (place, many) if isinstance(each, Constant) and each.data_type == INT]
    if not pa.types.is_list(data.data_type) or len(numbers) < 2 or numbers[0] == 0 or numbers[1] < 0:
        unproven_of(tree, (data, place, many))
    return Function(partial(nested.cut, place=numbers[0], most=numbers[1]), (data,), data.data_type)


def _array_join(reader: Reader, tree: exp.Anonymous) -> Node:
    data, separator = arguments_of(reader, tree)
    if data.data_type != _list(STRING) or not isinstance(separator, Constant) or separator.data_type != STRING:
        unproven_of(tree, (data, separator))
    return Function(partial(nested.joined, separator=separator.value), (data,), STRING)


def _of_map(kernel: Callable[..., Value], reader: Reader, tree: exp.Anonymous) -> Node:
    arguments, data_type = typed(reader, tree)
    return Function(partial(kernel, data_type=data_type), arguments, data_type)


def _split(reader: Reader, tree: exp.Anonymous) -> Node:
    text, separator = arguments_of(reader, tree)
    if text.data_type != STRING or is_null(text) or separator.data_type != STRING:
        unproven_of(tree, (text, separator))
    if not isinstance(separator, Constant) or not _PLAIN_SEPARATOR.fullmatch(separator.value or ""):
        unproven("`split` by a regular expression is only proven in Spark SQL")
    found = partial(nested.split, separator=separator.value, data_type=_list(STRING))
    return Function(found, (text,), _list(STRING))


NESTED_FORMS: Forms = {
    exp.Column: _column,
    exp.Dot: _dot,
    exp.Struct: _struct,
    exp.Array: _array,
    exp.Bracket: _bracket,
    "get": call(nested.item_or_null),
    **dict.fromkeys(("element_at", "try_element_at"), _element_at),
    **dict.fromkeys(("size", "cardinality", "array_size"), call(nested.size)),
    "array_max": call(partial(nested.extreme, most=True)),
    "array_min": call(partial(nested.extreme, most=False)),
    "slice": _slice,
    "array_join": _array_join,
    "array_contains": _array_contains,
    "map_contains_key": _map_contains_key,
    "map_keys": partial(_of_map, nested.keys),
    "map_values": partial(_of_map, nested.values),
    "split": _split,
}


# `from_json` of structs.

_CUT = re.compile(r"\bchar\b|\bvarchar\b", re.IGNORECASE)
_WHOLE_TEXT = "_corrupt_record"
"""The field in which Spark stores a malformed string."""


def _from_json(reader: Reader, tree: exp.FromJson) -> Node:
    text, columns = reader.node(tree.this), reader.node(tree.expression)
    if text.data_type != STRING or is_constant(text) or not isinstance(columns, Constant):
        unproven_of(tree, (text, columns))
    return FromJson(text, _struct_of_text(str(columns.value)))


def _struct_of_text(columns: str) -> pa.StructType:
    data_type = _type(columns)
    if not pa.types.is_struct(data_type) or _CUT.search(columns):
        unproven(f"`from_json` of '{columns}' is only proven in Spark SQL")
    names = [each.name.lower() for each in data_type]
    if _WHOLE_TEXT in names:
        unproven(f"what `from_json` puts in `{_WHOLE_TEXT}` is only known to Spark SQL")
    if len(set(names)) < len(names) or struct(data_type) is None or not _has_pattern(data_type):
        unproven(f"`from_json` of '{columns}' is only proven in Spark SQL")
    return data_type


def _type(columns: str) -> pa.DataType:
    try:
        return pa.struct([pa.field(name, each) for name, each in parse_columns(columns).items()])
    except TypeSyntaxError:
        pass
    try:
        return arrow_type(columns)
    except TypeSyntaxError:
        unproven(f"the type '{columns}' of `from_json` is only known to Spark SQL")


def _has_pattern(data_type: pa.StructType) -> bool:
    """Whether RE2 accepts the pattern of a type: it rejects patterns that are too large."""
    try:
        pc.match_substring_regex(pa.array(["{}"]), pattern=pattern_of(data_type))
    except pa.ArrowInvalid:
        return False
    return True


JSON_FORMS: Forms = {exp.FromJson: _from_json}
