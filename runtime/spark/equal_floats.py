"""Floats of which equal ones look the same, as `records.keys.normal_key` has them, for columns of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType


def normal_floats(column: Column, data_type: DataType) -> Column:
    """The column with 0.0 in place of -0.0, like `records.keys.normal_key`. Other types are unchanged."""
    from pyspark.sql import functions
    from pyspark.sql.types import ArrayType, DoubleType, FloatType, StructType

    if isinstance(data_type, FloatType | DoubleType):
        # In IEEE 754, -0.0 + 0.0 is 0.0, and every other value stays.
        return column + functions.lit(0).cast(data_type)
    if isinstance(data_type, ArrayType) and _holds_floats(data_type):
        return functions.transform(column, lambda item: normal_floats(item, data_type.elementType))
    if isinstance(data_type, StructType) and _holds_floats(data_type):
        fields = [normal_floats(column.getField(field.name), field.dataType).alias(field.name) for field in data_type]
        return functions.when(column.isNotNull(), functions.struct(*fields))
    return column


def _holds_floats(data_type: DataType) -> bool:
    from pyspark.sql.types import ArrayType, DoubleType, FloatType, StructType

    if isinstance(data_type, ArrayType):
        return _holds_floats(data_type.elementType)
    if isinstance(data_type, StructType):
        return any(_holds_floats(field.dataType) for field in data_type)
    return isinstance(data_type, FloatType | DoubleType)
