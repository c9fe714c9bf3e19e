"""Reads SQL as nodes, or says what keeps it with Spark.

What is read here is proven: for all rows Spark SQL gives the same value, and fails for the same rows. Types follow
Spark's ANSI rules: of two numbers the narrower becomes the wider one, `/` is of doubles, a literal with a point is a
decimal, which becomes a double beside one. Where Spark would change a type in another way, Spark computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
from sqlglot import exp, parse_one, tokenize
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokens import TokenType

from ...errors import HeadwaterError
from ..records.types import arrow_type, ddl
from .nodes import (
    BOOLEAN,
    Call,
    Cast,
    Choice,
    Coalesce,
    Column,
    Comparison,
    Constant,
    Division,
    IsNull,
    Logic,
    Node,
    NullSafeEqual,
    OneOf,
)
from .promotion import (
    BIGINT,
    COMPARED,
    DECIMAL,
    DOUBLE,
    INT,
    NULL,
    STRING,
    WHOLE,
    alike,
    as_type,
    is_constant,
    is_decimal,
    is_null,
    name_of,
    parts_of,
    refuse_alike,
    refuse_folding,
    unproven,
    unproven_of,
)

_MOST_LEVELS = 60
"""How deeply a tree may be nested: each level is a call of a function where it is evaluated."""


def node_of(sql: str, columns: Mapping[str, pa.DataType], data_type: pa.DataType) -> Node:
    """The nodes of an expression. `columns`: physical name -> type. `data_type`: what Spark says that it gives.

    Raises UnprovenError.
    """
    if "\\" in sql:
        unproven("what a backslash stands for is only known to Spark SQL")
    try:
        kinds = [token.token_type for token in tokenize(sql, read="spark")]
        tree = parse_one(sql, read="spark")
    except (ParseError, TokenError):
        unproven("its syntax is only known to Spark SQL")
    except RecursionError:
        unproven("it is nested very deeply")
    if (TokenType.STRING, TokenType.STRING) in pairwise(kinds):
        unproven("a quote in a text is only known to Spark SQL")
    node = _Reader(columns).node(tree)
    if isinstance(node, Constant) and node.data_type in (NULL, DECIMAL):
        unproven(f"the type of `{sql}` is only known to Spark SQL")
    if node.data_type != data_type:
        unproven(f"Spark gives `{sql}` another type than it has here")
    return node


def predicate_of(sql: str, columns: Mapping[str, pa.DataType]) -> Node:
    """The nodes of a condition. Raises UnprovenError."""
    return node_of(sql, columns, BOOLEAN)


@dataclass
class _Reader:
    columns: Mapping[str, pa.DataType]
    level: int = 0

    def node(self, tree: exp.Expr) -> Node:
        self.level += 1
        if self.level > _MOST_LEVELS:
            unproven("it is nested very deeply")
        try:
            return self._read(tree)
        finally:
            self.level -= 1

    def _read(self, tree: exp.Expr) -> Node:
        known = _FORMS.get(type(tree))
        if known is None:
            unproven(f"`{name_of(tree)}` is only proven in Spark SQL")
        read, arguments = known
        extra = [name for name, value in tree.args.items() if value and name not in arguments]
        if extra:
            unproven(f"this form of `{name_of(tree)}` is only proven in Spark SQL")
        # The parser itself puts what is behind `<=>` in parentheses.
        bare = tree.expression.this if isinstance(tree, exp.NullSafeEQ) else None
        if isinstance(tree, _COMPARING) and any(
            isinstance(each, (*_COMPARING, exp.Not)) for each in (bare, *tree.iter_expressions())
        ):
            unproven("the order of comparisons without parentheses is only known to Spark SQL")
        return read(self, tree)

    def paren(self, tree: exp.Expr) -> Node:
        return self.node(tree.this)

    def column(self, tree: exp.Expr) -> Node:
        name = tree.name
        if name not in self.columns or not isinstance(tree.this, exp.Identifier):
            unproven(f"`{tree.sql('spark')}` is no column here")
        return Column(name, self.columns[name])

    def literal(self, tree: exp.Expr) -> Node:
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
        return Constant(text, DECIMAL)

    def boolean(self, tree: exp.Expr) -> Node:
        return Constant(bool(tree.this), BOOLEAN)

    def null(self, tree: exp.Expr) -> Node:  # noqa: ARG002
        return Constant(None, NULL)

    def negative(self, tree: exp.Expr) -> Node:
        written = tree.this.this if isinstance(tree.this, exp.Cast) else tree.this
        if isinstance(written, exp.Literal) and written.this in _ONLY_NEGATIVE:
            unproven(f"the type of -{written.this} is only known to Spark SQL")
        argument = self.node(tree.this)
        if isinstance(argument, Constant) and argument.data_type in (INT, BIGINT, DOUBLE):
            return Constant(-argument.value, argument.data_type)
        if isinstance(argument, Constant) and is_decimal(argument) and not argument.value.startswith("-"):
            if not float(argument.value):
                unproven("what sign the decimal -0.0 has is only known to Spark SQL")
            return Constant(f"-{argument.value}", DECIMAL)
        return self._arithmetic(tree, "negate", (argument,))

    def absolute(self, tree: exp.Expr) -> Node:
        return self._arithmetic(tree, "abs", (self.node(tree.this),))

    def calculation(self, tree: exp.Expr) -> Node:
        kernel = {exp.Add: "add", exp.Sub: "subtract", exp.Mul: "multiply"}[type(tree)]
        return self._arithmetic(tree, kernel, self._both(tree))

    def _arithmetic(self, tree: exp.Expr, kernel: str, arguments: tuple[Node, ...]) -> Node:
        data_type = arguments[0].data_type
        if data_type == DOUBLE:
            return Call(kernel, arguments, data_type)
        if data_type not in WHOLE:
            unproven_of(tree, arguments)
        node = Call(f"{kernel}_checked", arguments, data_type, checked=True)
        parts = parts_of(node, lambda each: isinstance(each, Call) and each.kernel == node.kernel)
        if len(parts) > 2 and len([each for each in parts if is_constant(each)]) > 1:
            unproven("Spark SQL may calculate with two literals first, and so without an overflow")
        return node

    def division(self, tree: exp.Expr) -> Node:
        left, right = self.node(tree.this), self.node(tree.expression)
        if not all(each.data_type in (*WHOLE, DOUBLE) or is_decimal(each) for each in (left, right)):
            unproven_of(tree, (left, right))
        if is_null(left) or is_null(right):
            unproven_of(tree, (left, right))
        if is_decimal(left) or is_decimal(right):
            left, right = alike(tree, (left, right))
        return Division("/", as_type(left, DOUBLE), as_type(right, DOUBLE), DOUBLE)

    def whole_division(self, tree: exp.Expr) -> Node:
        left, right = self.node(tree.this), self.node(tree.expression)
        if left.data_type not in WHOLE or right.data_type not in WHOLE or is_null(left) or is_null(right):
            unproven_of(tree, (left, right))
        return Division("div", as_type(left, BIGINT), as_type(right, BIGINT), BIGINT)

    def remainder(self, tree: exp.Expr) -> Node:
        left, right = self._both(tree)
        if left.data_type not in (*WHOLE, DOUBLE) or is_null(left) or is_null(right):
            unproven_of(tree, (left, right))
        return Division("%", left, right, left.data_type)

    def comparison(self, tree: exp.Expr) -> Node:
        left, right = self._both(tree)
        if left.data_type not in COMPARED:
            unproven_of(tree, (left, right))
        return Comparison(_COMPARISONS[type(tree)], left, right)

    def null_safe(self, tree: exp.Expr) -> Node:
        left, right = self._both(tree)
        if left.data_type not in COMPARED:
            unproven_of(tree, (left, right))
        if left.may_fail or right.may_fail:
            unproven(f"what `{name_of(tree)}` does with errors is only known to Spark SQL")
        return NullSafeEqual(left, right)

    def between(self, tree: exp.Expr) -> Node:
        if self.node(tree.this).may_fail:
            unproven("when Spark SQL computes the value for `between` is only known to it")
        low = exp.GTE(this=tree.this.copy(), expression=tree.args["low"].copy())
        high = exp.LTE(this=tree.this.copy(), expression=tree.args["high"].copy())
        return Logic("and", self.node(low), self.node(high))

    def logic(self, tree: exp.Expr) -> Node:
        left, right = self._predicate(tree.this), self._predicate(tree.expression)
        refuse_folding((left, right), is_constant)
        refuse_alike((*parts_of(left, _is_logic), *parts_of(right, _is_logic)))
        return Logic("and" if isinstance(tree, exp.And) else "or", left, right)

    def negation(self, tree: exp.Expr) -> Node:
        return Call("invert", (self._predicate(tree.this),), BOOLEAN)

    def is_(self, tree: exp.Expr) -> Node:
        if not isinstance(tree.expression, exp.Null):
            unproven(f"`{tree.sql('spark')}` is only proven in Spark SQL")
        argument = self.node(tree.this)
        if argument.may_fail:
            unproven("what `is null` does with errors is only known to Spark SQL")
        return IsNull(argument)

    def one_of(self, tree: exp.Expr) -> Node:
        listed = [self.node(each) for each in tree.expressions]
        constants = [each for each in listed if isinstance(each, Constant)]
        given = [each for each in constants if each.data_type != NULL]
        if not given or len(constants) < len(listed):
            unproven("`in` is only proven for a list of literals")
        argument, *values = alike(tree, (self.node(tree.this), *given))
        if argument.data_type not in COMPARED or argument.data_type == DOUBLE:
            unproven_of(tree, (argument,))
        of_all = [each.value for each in values if isinstance(each, Constant)]
        return OneOf(argument, tuple(of_all), has_null=len(given) < len(listed))

    def case(self, tree: exp.Expr) -> Node:
        conditions, values = [], []
        for each in tree.args["ifs"]:
            condition = each.this
            if tree.this is not None:
                condition = exp.EQ(this=tree.this.copy(), expression=condition.copy())
            conditions.append(self._predicate(condition))
            values.append(self.node(each.args["true"]))
        default = tree.args.get("default")
        return self._choice(
            tree, conditions, [*values, Constant(None, NULL) if default is None else self.node(default)]
        )

    def if_(self, tree: exp.Expr) -> Node:
        otherwise = tree.args.get("false")
        if otherwise is None:
            unproven("`if` without its third argument is only known to Spark SQL")
        return self._choice(tree, [self._predicate(tree.this)], [self.node(tree.args["true"]), self.node(otherwise)])

    def _choice(self, tree: exp.Expr, conditions: list[Node], values: list[Node]) -> Node:
        if any(map(is_constant, conditions)):
            unproven("a condition that is written down as `true`, `false` or `null` is left to Spark SQL")
        if any(each.may_fail for each in conditions):
            unproven("whether Spark SQL asks for a condition that may fail is only known to it")
        *chosen, default = alike(tree, tuple(values))
        if default.data_type not in COMPARED:
            unproven_of(tree, (default,))
        return Choice(tuple(zip(conditions, chosen, strict=True)), default, default.data_type)

    def coalesce(self, tree: exp.Expr) -> Node:
        arguments = alike(tree, tuple(map(self.node, (tree.this, *tree.expressions))))
        if arguments[0].data_type not in COMPARED:
            unproven_of(tree, arguments)
        return Coalesce(arguments, arguments[0].data_type)

    def cast(self, tree: exp.Expr) -> Node:
        argument, wanted = self.node(tree.this), _type_of(tree.args["to"])
        given = argument.data_type
        if isinstance(argument, Constant) and wanted == DOUBLE and given == DECIMAL:
            return Constant(float(argument.value), DOUBLE)
        if given == wanted:
            return argument
        whole = given in WHOLE
        if whole and (wanted in (DOUBLE, STRING) or wanted in WHOLE[WHOLE.index(given) :]):
            return Cast(argument, wanted)
        if not (whole and wanted in WHOLE) and (given, wanted) != (DOUBLE, INT):
            unproven(f"a cast from {ddl(given)} to {tree.args['to'].sql('spark')} is only proven in Spark SQL")
        return Cast(argument, wanted, checked=True)

    def concat(self, tree: exp.Expr) -> Node:
        parts = tree.expressions if isinstance(tree, exp.Concat) else (tree.this, tree.expression)
        arguments = tuple(map(self.node, parts))
        if any(each.data_type != STRING or each.may_fail for each in arguments):
            unproven_of(tree, arguments)
        return Call("binary_join_element_wise", (*arguments, Constant("", STRING)), STRING)

    def length(self, tree: exp.Expr) -> Node:
        argument = self.node(tree.this)
        if argument.data_type != STRING:
            unproven_of(tree, (argument,))
        return Call("utf8_length", (argument,), INT)

    def _predicate(self, tree: exp.Expr) -> Node:
        node = self.node(tree)
        if node.data_type != BOOLEAN:
            unproven(f"`{tree.sql('spark')}` is no boolean here")
        return node

    def _both(self, tree: exp.Expr) -> tuple[Node, ...]:
        nodes = alike(tree, (self.node(tree.this), self.node(tree.expression)))
        refuse_folding(nodes, is_null)
        refuse_alike(nodes)
        return nodes


def _is_logic(node: Node) -> bool:
    return isinstance(node, Logic) or (isinstance(node, Call) and node.kernel == "invert")


def _type_of(tree: exp.Expr) -> pa.DataType:
    try:
        return arrow_type(tree.sql("spark"))
    except HeadwaterError:
        unproven(f"the type {tree.sql('spark')} is only known to Spark SQL")


_COMPARISONS: Mapping[type[exp.Expr], str] = {
    exp.EQ: "equal",
    exp.NEQ: "not_equal",
    exp.LT: "less",
    exp.LTE: "less_equal",
    exp.GT: "greater",
    exp.GTE: "greater_equal",
}
_COMPARING = (*_COMPARISONS, exp.NullSafeEQ, exp.Between, exp.In, exp.Is)
"""What Spark SQL reads from left to right where nothing is in parentheses, but is read here in another order."""

_ONLY_NEGATIVE = frozenset(str(2**bits) for bits in (7, 15, 31, 63))
"""Numbers that have a place in a type only with a minus in front, which is then a part of the literal."""

_TWO = frozenset({"this", "expression"})
_FORMS: Mapping[type[exp.Expr], tuple[Callable[[_Reader, Any], Node], frozenset[str]]] = {
    exp.Paren: (_Reader.paren, frozenset({"this"})),
    exp.Column: (_Reader.column, frozenset({"this"})),
    exp.Literal: (_Reader.literal, frozenset({"this", "is_string"})),
    exp.Boolean: (_Reader.boolean, frozenset({"this"})),
    exp.Null: (_Reader.null, frozenset()),
    exp.Neg: (_Reader.negative, frozenset({"this"})),
    exp.Abs: (_Reader.absolute, frozenset({"this"})),
    exp.Add: (_Reader.calculation, _TWO),
    exp.Sub: (_Reader.calculation, _TWO),
    exp.Mul: (_Reader.calculation, _TWO),
    exp.Div: (_Reader.division, _TWO | {"safe"}),
    exp.IntDiv: (_Reader.whole_division, _TWO),
    exp.Mod: (_Reader.remainder, _TWO),
    **dict.fromkeys(_COMPARISONS, (_Reader.comparison, _TWO)),
    exp.NullSafeEQ: (_Reader.null_safe, _TWO),
    exp.Between: (_Reader.between, frozenset({"this", "low", "high"})),
    exp.And: (_Reader.logic, _TWO),
    exp.Or: (_Reader.logic, _TWO),
    exp.Not: (_Reader.negation, frozenset({"this"})),
    exp.Is: (_Reader.is_, _TWO),
    exp.In: (_Reader.one_of, frozenset({"this", "expressions"})),
    exp.Case: (_Reader.case, frozenset({"this", "ifs", "default"})),
    exp.If: (_Reader.if_, frozenset({"this", "true", "false"})),
    exp.Coalesce: (_Reader.coalesce, frozenset({"this", "expressions"})),
    # sqlglot reads a `cast` of Spark as a TryCast. `try_cast` itself is refused in `node_of`.
    exp.TryCast: (_Reader.cast, frozenset({"this", "to"})),
    exp.Cast: (_Reader.cast, frozenset({"this", "to"})),
    exp.Concat: (_Reader.concat, frozenset({"expressions", "safe"})),
    exp.DPipe: (_Reader.concat, _TWO | {"safe"}),
    exp.Length: (_Reader.length, frozenset({"this"})),
}
"""How each form of SQL is read, and which of its parts it may have."""
