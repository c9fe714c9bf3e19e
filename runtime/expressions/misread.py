"""Where sqlglot's parser reads SQL in another way than Spark's. Both readers of expressions refuse such SQL.

One reads types for the compiler, which must not load Arrow, so this module does not either.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokens import TokenType

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
"""What an operand ends with."""

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


def has_plus_in_front(kinds: Sequence[TokenType], ends: Collection[TokenType] = ENDS) -> bool:
    """Whether a plus stands in front of an operand: the parser forgets it, but Spark SQL makes a number of a text."""
    return any(kind is TokenType.PLUS and before not in ends for before, kind in pairwise((None, *kinds)))


def is_bare_comparison(tree: exp.Expr, comparing: tuple[type[exp.Expr], ...] = COMPARING) -> bool:
    """Whether a comparison has another one, or a `not`, right in it, without parentheses."""
    # The parser itself puts what is behind `<=>` in parentheses.
    bare = tree.expression.this if isinstance(tree, exp.NullSafeEQ) else None
    return isinstance(tree, comparing) and any(
        isinstance(each, (*comparing, exp.Not)) for each in (bare, *tree.iter_expressions())
    )
