"""Values of a type, made of the tokens of a text as Spark makes them.

What is no value of its type is lost alone: Spark then goes on behind it, and gives the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from functools import partial
from typing import Any

import pyarrow as pa

from .lost import LostError, PartlyError
from .tokens import Kind, Tokens
from .units import characters
from .written import double, written

Convert = Callable[[Tokens], Any]
"""Makes a value of the one that tokens are at. Raises LostError or PartlyError."""

_BITS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}
_TEXTS_OF_DOUBLES = frozenset({"NaN", "+INF", "+Infinity", "Infinity", "-INF", "-Infinity"})
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
_FAR = 2000
"""An exponent behind which a number is 0 in any decimal, or has no place in it."""


@dataclass(frozen=True)
class Struct:
    """Makes structs. `fields`: what converts each."""

    fields: Mapping[str, Convert]

    def __call__(self, tokens: Tokens) -> dict[str, Any]:
        """See `Convert`."""
        if tokens.kind is not Kind.OBJECT:
            raise _lost(tokens)
        found: dict[str, Any] = dict.fromkeys(self.fields)
        partly = False
        while tokens.next() not in (None, Kind.OBJECT_END):
            name = tokens.name
            convert = None if name is None else self.fields.get(name)
            if name is None or convert is None:
                tokens.leave()
                continue
            try:
                found[name] = convert(tokens)
            except PartlyError as error:
                partly = True
                found[name] = error.value
            except LostError:
                partly = True
                tokens.leave()
        if partly:
            raise PartlyError(found)
        return found


def conversion(data_type: pa.DataType) -> Convert | None:
    """What makes values of a type; None: it is not proven that they are Spark's."""
    made = _made(data_type)
    return None if made is None else partial(_unless_null, made)


def struct(data_type: pa.StructType) -> Struct | None:
    """What makes structs of a type; see `conversion`."""
    fields = {each.name: conversion(each.type) for each in data_type}
    known = {name: convert for name, convert in fields.items() if convert is not None}
    return Struct(known) if known and len(known) == data_type.num_fields else None


def _made(data_type: pa.DataType) -> Convert | None:
    if data_type in _BITS:
        return partial(_whole, bits=_BITS[data_type])
    if data_type == pa.float64():
        return _double
    if data_type == pa.string():
        return _text
    if data_type == pa.bool_():
        return _boolean
    if pa.types.is_decimal128(data_type):
        return partial(_decimal, precision=data_type.precision, scale=data_type.scale)
    if pa.types.is_struct(data_type):
        return struct(data_type)
    if pa.types.is_list(data_type):
        element = conversion(data_type.value_type)
        return None if element is None else partial(_array, element)
    return None


def _unless_null(convert: Convert, tokens: Tokens) -> Any:
    while tokens.kind is Kind.NAME:
        tokens.next()
    return None if tokens.kind is None or tokens.kind is Kind.NULL else convert(tokens)


def _array(element: Convert, tokens: Tokens) -> list[Any]:
    if tokens.kind is not Kind.ARRAY:
        raise _lost(tokens)
    found, partly = [], False
    while tokens.next() not in (None, Kind.ARRAY_END):
        try:
            found.append(element(tokens))
        except PartlyError as error:
            partly = True
            found.append(error.value)
    if partly:
        raise PartlyError(found)
    return found


def _whole(tokens: Tokens, bits: int) -> int:
    if tokens.kind is not Kind.WHOLE:
        raise _lost(tokens)
    number, edge = int(tokens.number), 1 << (bits - 1)
    if bits == 8 and edge <= number < 2 * edge:  # the reader in Spark takes 200 for a byte too
        return number - 2 * edge
    if not -edge <= number < edge:
        raise LostError
    return number


def _double(tokens: Tokens) -> float:
    if tokens.kind is Kind.WHOLE:
        return double(tokens.number) + 0.0  # no -0
    if tokens.kind is Kind.FRACTION:
        return double(tokens.number)
    if tokens.kind is Kind.TEXT and tokens.text() in _TEXTS_OF_DOUBLES:
        return double(tokens.text())
    raise _lost(tokens)


def _text(tokens: Tokens) -> str:
    return characters(tokens.text()) if tokens.kind is Kind.TEXT else written(tokens)


def _boolean(tokens: Tokens) -> bool:
    if tokens.kind is Kind.TRUE or tokens.kind is Kind.FALSE:
        return tokens.kind is Kind.TRUE
    raise _lost(tokens)


def _decimal(tokens: Tokens, precision: int, scale: int) -> Decimal:
    if tokens.kind is Kind.TEXT:
        number = tokens.text().replace(",", "")
    elif tokens.kind is Kind.WHOLE or tokens.kind is Kind.FRACTION:
        number = tokens.number
    else:
        raise LostError
    if not _DECIMAL.fullmatch(number):
        raise LostError
    with localcontext(Context(prec=2 * _FAR)):
        value = Decimal(number)
        if value and value.adjusted() > precision:
            raise LostError
        rounded = value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP) if value.adjusted() > -_FAR else Decimal(0)
        if rounded.adjusted() >= precision - scale and rounded:
            raise LostError
        return rounded


def _lost(tokens: Tokens) -> LostError:
    """The error for a value of another kind. Spark looks at a text first, which may be an error of its own."""
    if tokens.kind is Kind.TEXT:
        tokens.text()
    return LostError()
