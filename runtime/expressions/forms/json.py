"""`from_json` of structs."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from ...records.types import TypeSyntaxError, arrow_type, parse_columns
from ..json.conversions import struct
from ..json.node import FromJson
from ..json.patterns import pattern_of
from ..nodes import Constant, Node
from ..promotion import STRING, is_constant, unproven, unproven_of
from .form import Forms, Reader, form

_CUT = re.compile(r"\bchar\b|\bvarchar\b", re.IGNORECASE)
_WHOLE_TEXT = "_corrupt_record"
"""The field that gets a text that is no JSON."""


def _from_json(reader: Reader, tree: exp.FromJson) -> Node:
    text, columns = reader.node(tree.this), reader.node(tree.expression)
    if text.data_type != STRING or is_constant(text) or not isinstance(columns, Constant):
        unproven_of(tree, (text, columns))
    return FromJson(text, _struct(str(columns.value)))


def _struct(columns: str) -> pa.StructType:
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
    """Whether the pattern of a type is not too large to be searched for."""
    try:
        pc.match_substring_regex(pa.array(["{}"]), pattern=pattern_of(data_type))
    except pa.ArrowInvalid:
        return False
    return True


FORMS: Forms = {exp.FromJson: form(_from_json, "this", "expression")}
