"""A check of query columns: a text that is not UTF-8 is an error, anywhere in the value."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType


def checked_text(column: Column, data_type: DataType) -> Column:
    """The column, computed only for its errors. Nulls and maps come out different."""
    from pyspark.sql import functions, types

    match data_type:
        case types.StringType():
            return functions.validate_utf8(column)
        case types.StructType(fields=fields):
            parts = (checked_text(column.getField(field.name), field.dataType) for field in fields)
            return functions.struct(*(part.alias(f"_{number}") for number, part in enumerate(parts)))
        case types.ArrayType(elementType=element):
            return functions.transform(column, lambda each: checked_text(each, element))
        case types.MapType(keyType=key, valueType=item):
            keys = checked_text(functions.map_keys(column), types.ArrayType(key))
            return functions.struct(keys, checked_text(functions.map_values(column), types.ArrayType(item)))
    return column
