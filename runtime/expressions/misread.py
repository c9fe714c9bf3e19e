"""Reads an expression with sqlglot, and knows where sqlglot reads SQL in another way than Spark.

Every reader of expressions parses here. The compiler is one of them and must not load Arrow, so this module does not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar

from sqlglot import exp, parse_one
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokens import Token, TokenType

from ..records.names import SQL_WORDS


class ExpressionParser(SparkParser):  # type: ignore[misc]
    """sqlglot's parser of Spark SQL. In Spark `array[0]` is an element of the column `array`, not an array."""

    ARRAY_CONSTRUCTORS: ClassVar[dict[str, type[exp.Expr]]] = {}


class ExpressionSql(Spark):  # type: ignore[misc]
    """The dialect with that parser."""

    Parser = ExpressionParser


@lru_cache(maxsize=1000)
def parse_expression(sql: str, dialect: type[Spark] = ExpressionSql) -> exp.Expr:
    """The tree of one expression, which is not to be changed: many have it. Raises SqlglotError, RecursionError.

    It is read behind `SELECT`, as sqlglot takes `partition + 7` or `cache > 1` by themselves for statements.
    """
    query = parse_one(f"SELECT {sql}", read=dialect)
    if [name for name, value in query.args.items() if value] != ["expressions"] or len(query.expressions) != 1:
        raise ParseError("This is not one expression.")
    tree: exp.Expr = query.expressions[0]
    return tree


_CALLED = re.compile(r"[A-Za-z_]\w*(?=\()")
_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "div",
    exp.Mod: "%",
    exp.DPipe: "||",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
    exp.Neg: "-",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
    exp.BitwiseNot: "~",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
    exp.RegexpLike: "rlike",
    exp.Bracket: "[]",
}


def name_of(tree: exp.Expr) -> str:
    """What an operator or a function is called in Spark SQL: as it is written, where sqlglot has kept that."""
    if isinstance(tree, exp.Anonymous):
        return str(tree.name).lower()
    if isinstance(tree, exp.TryCast):
        return "try_cast" if tree.args.get("safe") else "cast"
    written = tree.meta.get("name") or _OPERATORS.get(type(tree))
    if written is None and (called := _CALLED.match(tree.sql(ExpressionSql))):
        written = called[0]
    return str(written or tree.key).lower()


ENDS = frozenset(
    {
        TokenType.VAR,
        TokenType.IDENTIFIER,
        TokenType.NUMBER,
        TokenType.STRING,
        TokenType.R_PAREN,
        TokenType.R_BRACKET,
        TokenType.TRUE,
        TokenType.FALSE,
        TokenType.NULL,
        TokenType.END,
    }
)
"""What an operand ends with, beside names that are words of SQL elsewhere: `partition + 7`."""

_OPERATOR_WORDS = frozenset({"div", "escape", "in", "is"})

COMPARING: tuple[type[exp.Expr], ...] = (
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.NullSafeEQ,
    exp.Between,
    exp.In,
    exp.Is,
    exp.Like,
    exp.RegexpLike,
)
"""What Spark SQL reads from left to right where nothing is in parentheses, but the parser in another order."""


def has_plus_in_front(tokens: Sequence[Token]) -> bool:
    """Whether a plus stands in front of an operand: the parser forgets it, but Spark SQL makes a number of a text."""
    return any(
        token.token_type is TokenType.PLUS and (before is None or not _ends_operand(before))
        for before, token in pairwise((None, *tokens))
    )


def _ends_operand(token: Token) -> bool:
    word = token.text.lower()
    return token.token_type in ENDS or (word.isidentifier() and word not in SQL_WORDS and word not in _OPERATOR_WORDS)


def is_bare_comparison(tree: exp.Expr, comparing: tuple[type[exp.Expr], ...] = COMPARING) -> bool:
    """Whether a comparison has another one, or a `not`, right in it, without parentheses."""
    # The parser itself puts what is behind `<=>` in parentheses.
    bare = tree.expression.this if isinstance(tree, exp.NullSafeEQ) else None
    return isinstance(tree, comparing) and any(
        isinstance(each, (*comparing, exp.Not)) for each in (bare, *tree.iter_expressions())
    )
