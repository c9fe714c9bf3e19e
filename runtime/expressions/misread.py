"""Parses expressions with sqlglot, and detects SQL that sqlglot parses differently from Spark.

All code that parses expressions uses this module. The compiler does too, and must not import Arrow. So this module
does not import it.
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
    """sqlglot's parser of Spark SQL, except that `array[0]` is an element of the column `array`, as in Spark."""

    ARRAY_CONSTRUCTORS: ClassVar[dict[str, type[exp.Expr]]] = {}


class ExpressionSql(Spark):  # type: ignore[misc]
    """The Spark dialect with `ExpressionParser`."""

    Parser = ExpressionParser


@lru_cache(maxsize=1000)
def parse_expression(sql: str, dialect: type[Spark] = ExpressionSql) -> exp.Expr:
    """The syntax tree of one expression. Raises SqlglotError, RecursionError.

    The tree is cached and shared, so callers must not change it. The expression is parsed after `SELECT`: alone,
    sqlglot would parse `partition + 7` or `cache > 1` as statements.
    """
    query = parse_one(f"SELECT {sql}", read=dialect)
    if [name for name, value in query.args.items() if value] != ["expressions"] or len(query.expressions) != 1:
        raise ParseError("This is not one expression.")
    tree: exp.Expr = query.expressions[0]
    return tree


_CALLED = re.compile(r"[A-Za-z_]\w*(?=\()")
SIGNS: dict[type[exp.Expr], str] = {
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
"""Operators as they are written in Spark SQL."""


def name_of(tree: exp.Expr) -> str:
    """The name of an operator or a function in Spark SQL, in lower case: as in the source, if sqlglot has kept that."""
    if isinstance(tree, exp.Anonymous):
        return str(tree.name).lower()
    if isinstance(tree, exp.TryCast):
        return "try_cast" if tree.args.get("safe") else "cast"
    written = tree.meta.get("name") or SIGNS.get(type(tree))
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
"""Tokens that can end an operand. Names that are keywords elsewhere can too, such as in `partition + 7`."""

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
"""Operators of one precedence in Spark SQL, from left to right. sqlglot's parser has another order for them."""


def has_plus_in_front(tokens: Sequence[Token]) -> bool:
    """Whether the expression has a unary plus. sqlglot drops it, but in Spark SQL it casts a string to a number."""
    return any(
        token.token_type is TokenType.PLUS and (before is None or not _ends_operand(before))
        for before, token in pairwise((None, *tokens))
    )


def _ends_operand(token: Token) -> bool:
    word = token.text.lower()
    return token.token_type in ENDS or (word.isidentifier() and word not in SQL_WORDS and word not in _OPERATOR_WORDS)


def is_bare_comparison(tree: exp.Expr, comparing: tuple[type[exp.Expr], ...] = COMPARING) -> bool:
    """Whether the operand of a comparison is another comparison, or a `not`, without parentheses."""
    # sqlglot's parser itself adds parentheses around the right operand of `<=>`.
    bare = tree.expression.this if isinstance(tree, exp.NullSafeEQ) else None
    return isinstance(tree, comparing) and any(
        isinstance(each, (*comparing, exp.Not)) for each in (bare, *tree.iter_expressions())
    )
