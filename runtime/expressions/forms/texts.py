"""The forms of string functions. Arguments such as patterns, positions and padding must be literals."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from ...records.arrays import check_overflow
from ..functions.texts import cut, joined, lower, of_like, of_rlike, padded, piece, position, repeated, up_to, upper
from ..misread import name_of
from ..nodes import BOOLEAN, Call, Constant, Node
from ..promotion import INT, STRING, unproven, unproven_of
from .form import Forms, Reader, operand

_LONGEST = 1000
"""The maximum width of padding, and the maximum number of repetitions."""


def _text(reader: Reader, tree: exp.Expr, part: exp.Expr) -> Node:
    node = reader.node(part)
    if node.data_type != STRING or node.may_fail:
        unproven_of(tree, (node,))
    return node


def _constant(reader: Reader, tree: exp.Expr, part: exp.Expr | None, data_type: Any) -> Any:
    node = None if part is None else reader.node(part)
    if not isinstance(node, Constant) or node.data_type != data_type or node.value is None:
        unproven(f"`{name_of(tree)}` is only proven with literals behind its first argument")
    return node.value


def _literal_text(reader: Reader, tree: exp.Expr, part: exp.Expr | None) -> str:
    return str(_constant(reader, tree, part, STRING))


def _literal_number(reader: Reader, tree: exp.Expr, part: exp.Expr | None) -> int:
    return int(_constant(reader, tree, part, INT))


def _concat(reader: Reader, tree: exp.Concat | exp.DPipe) -> Node:
    parts = tree.expressions if isinstance(tree, exp.Concat) else (tree.this, tree.expression)
    arguments = tuple(_text(reader, tree, each) for each in parts)
    if not arguments:
        unproven_of(tree, arguments)
    return Call(pc.binary_join_element_wise, (*arguments, Constant("", STRING)), STRING)


def _length(reader: Reader, tree: exp.Length) -> Node:
    return Call(pc.utf8_length, (operand(reader, tree, tree.this, STRING),), INT)


def _changed(kernel: Callable[..., Any], reader: Reader, tree: exp.Expr) -> Node:
    return Call(kernel, (_text(reader, tree, tree.this),), STRING)


def _in_case(kernel: Callable[..., Any], reader: Reader, tree: exp.Upper | exp.Lower) -> Node:
    if tree.this.find(exp.Upper, exp.Lower):
        unproven("Spark SQL omits the inner one of `upper` and `lower`, which changes letters such as ß")
    return _changed(kernel, reader, tree)


def _searched(kernel: Callable[..., Any], reader: Reader, tree: exp.Expr) -> Node:
    return _matched(kernel, _literal_text(reader, tree, tree.expression), reader, tree)


def _matched(kernel: Callable[..., Any], pattern: str, reader: Reader, tree: exp.Expr) -> Node:
    found = Call(partial(kernel, pattern=pattern), (_text(reader, tree, tree.this),), BOOLEAN)
    return Call(pc.invert, (found,), BOOLEAN) if tree.args.get("negate") else found


def _like(reader: Reader, tree: exp.Like, escape: str = "") -> Node:
    pattern = of_like(_literal_text(reader, tree, tree.expression), escape)
    return _matched(pc.match_like, pattern, reader, tree)


def _escaped(reader: Reader, tree: exp.Escape) -> Node:
    escape = _literal_text(reader, tree, tree.expression)
    if not isinstance(tree.this, exp.Like) or len(escape) != 1:
        unproven("this form of `escape` is only proven in Spark SQL")
    return _like(reader, tree.this, escape)


def _rlike(reader: Reader, tree: exp.RegexpLike) -> Node:
    pattern = of_rlike(_literal_text(reader, tree, tree.expression))
    return _matched(pc.match_substring_regex, pattern, reader, tree)


def _substring(reader: Reader, tree: exp.Substring) -> Node:
    start = _literal_number(reader, tree, tree.args.get("start"))
    length = tree.args.get("length")
    size = None if length is None else _literal_number(reader, tree, length)
    return Call(partial(cut, start=start, length=size), (_text(reader, tree, tree.this),), STRING)


def _left(reader: Reader, tree: exp.Left) -> Node:
    size = _literal_number(reader, tree, tree.expression)
    return Call(partial(cut, start=1, length=size), (_text(reader, tree, tree.this),), STRING)


def _right(reader: Reader, tree: exp.Right) -> Node:
    size = _literal_number(reader, tree, tree.expression)
    kept = partial(cut, start=-size, length=None) if size > 0 else partial(cut, start=1, length=0)
    return Call(kept, (_text(reader, tree, tree.this),), STRING)


def _trim(reader: Reader, tree: exp.Trim) -> Node:
    kernels = {"": pc.utf8_trim, "BOTH": pc.utf8_trim, "LEADING": pc.utf8_ltrim, "TRAILING": pc.utf8_rtrim}
    kernel = kernels[str(tree.args.get("position") or "")]
    characters = " " if tree.expression is None else _literal_text(reader, tree, tree.expression)
    return Call(partial(kernel, characters=characters), (_text(reader, tree, tree.this),), STRING)


def _btrim(reader: Reader, tree: exp.Anonymous) -> Node:
    text, *others = tree.expressions
    characters = _literal_text(reader, tree, others[0]) if others else " "
    return Call(partial(pc.utf8_trim, characters=characters), (_text(reader, tree, text),), STRING)


def _replace(reader: Reader, tree: exp.Replace) -> Node:
    text, pattern = _text(reader, tree, tree.this), _literal_text(reader, tree, tree.expression)
    replacement = tree.args.get("replacement")
    new = "" if replacement is None else _literal_text(reader, tree, replacement)
    if not pattern:
        return text
    return Call(partial(_replaced, pattern=pattern, replacement=new), (text,), STRING)


def _replaced(text: Any, pattern: str, replacement: str) -> Any:
    found = pc.replace_substring(text, pattern=pattern, replacement=replacement)
    return check_overflow(found) if isinstance(found, pa.Array) else found


def _concat_ws(reader: Reader, tree: exp.ConcatWs) -> Node:
    separator, *others = tree.expressions
    texts = tuple(_text(reader, tree, each) for each in others)
    if not texts:
        unproven_of(tree, texts)
    return Call(partial(joined, separator=_literal_text(reader, tree, separator)), texts, STRING)


def _pad(reader: Reader, tree: exp.Pad) -> Node:
    width = _literal_number(reader, tree, tree.expression)
    pattern = tree.args.get("fill_pattern")
    padding = " " if pattern is None else _literal_text(reader, tree, pattern)
    if len(padding) != 1 or not 0 <= width <= _LONGEST:
        unproven(f"a text that is padded with '{padding}' to {width} characters is only proven in Spark SQL")
    kernel = partial(padded, pc.utf8_lpad if tree.args.get("is_left") else pc.utf8_rpad)
    return Call(partial(kernel, width=width, padding=padding), (_text(reader, tree, tree.this),), STRING)


def _repeat(reader: Reader, tree: exp.Repeat) -> Node:
    times = _literal_number(reader, tree, tree.args["times"])
    if times > _LONGEST:
        unproven(f"a text that is repeated {times} times is left to Spark SQL")
    return Call(partial(repeated, times=max(times, 0)), (_text(reader, tree, tree.this),), STRING)


def _position(reader: Reader, tree: exp.StrPosition) -> Node:
    part = _literal_text(reader, tree, tree.args.get("substr"))
    return Call(partial(position, part=part), (_text(reader, tree, tree.this),), INT)


def _separated(kernel: Callable[..., Any], count: str, reader: Reader, tree: exp.Expr) -> Node:
    """`split_part`, `substring_index`. `count`: the argument with the number of the piece."""
    separator = _literal_text(reader, tree, tree.args.get("delimiter"))
    number = _literal_number(reader, tree, tree.args.get(count))
    if not separator or not number:
        unproven(f"`{name_of(tree)}` without a separator, or of number 0, is only known to Spark SQL")
    return Call(partial(kernel, separator=separator, number=number), (_text(reader, tree, tree.this),), STRING)


TEXT_FORMS: Forms = {
    exp.Concat: _concat,
    exp.DPipe: _concat,
    exp.ConcatWs: _concat_ws,
    exp.Length: _length,
    exp.Reverse: partial(_changed, pc.utf8_reverse),
    exp.Upper: partial(_in_case, upper),
    exp.Lower: partial(_in_case, lower),
    exp.StartsWith: partial(_searched, pc.starts_with),
    exp.EndsWith: partial(_searched, pc.ends_with),
    exp.Contains: partial(_searched, pc.match_substring),
    exp.Like: _like,
    exp.Escape: _escaped,
    exp.RegexpLike: _rlike,
    exp.Substring: _substring,
    exp.Left: _left,
    exp.Right: _right,
    exp.Trim: _trim,
    "btrim": _btrim,
    exp.Replace: _replace,
    exp.Pad: _pad,
    exp.Repeat: _repeat,
    exp.StrPosition: _position,
    exp.SplitPart: partial(_separated, piece, "part_index"),
    exp.SubstringIndex: partial(_separated, up_to, "count"),
}
