"""Which expressions are known not to fail. On Spark the rule is held by the conformance cases 31 and 32."""

from __future__ import annotations

import pytest

from headwater.compiler.diagnostics import Diagnostics, Position
from headwater.compiler.language.certain import cannot_fail
from headwater.compiler.language.expressions import Scope
from headwater.compiler.language.udfs import read
from headwater.compiler.reading.source import ScalarNode

COLUMNS = {
    "n": "bigint",
    "i": "int",
    "x": "double",
    "d": "decimal(10,2)",
    "s": "string",
    "b": "boolean",
    "p": "struct<by:int,value:string>",
    "rows": "bigint",
}


class Offsets:
    def position(self, offset: int, end: int | None = None) -> Position:
        return Position("t.yml", 1, offset, end)


def is_certain(sql: str) -> bool:
    scope = Scope({"k": "string"}, COLUMNS)
    expression = read(ScalarNode(sql, sql, Position("t.yml"), Offsets()), scope, Diagnostics())
    assert expression is not None
    return cannot_fail(expression, scope.type_of, {"rows"})


@pytest.mark.parametrize(
    "sql",
    [
        "n", "p.value", "1.5", "null", "x + 1", "x * d - n", "n / rows", "x / (rows)", "n / 4", "100 * (x / rows)",
        "x / nullif(n, 0)", "n > 3", "x >= n and not b", "s = 'a' or s is null", "coalesce(x, 0.5e0)",
        "coalesce(s, '-')",
        "if(n > 3, x / rows, null)", "round(x / rows, 2)", "coalesce(p.value, p.value)", "k <=> s",
    ],
)  # fmt: skip
def test_expression_that_cannot_fail_is_known(sql):
    assert is_certain(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "n + 1", "n * x / n", "100 / (n - 2)", "x / n", "x / 0", "d / rows", "d + d", "n % 2", "- n", "abs(n)",
        "cast(s as int)", "s > 3", "s + 1", "coalesce(s, 1)", "coalesce(x, 0.5)", "if(n / i > 1, 1, 2)",
        "x / nullif(i, 1)", "x / nullif(s, 0)", "element_at(array(1), 2)", "not s", "raise_error('no')", "p = p.value",
    ],
)  # fmt: skip
def test_expression_that_may_fail_is_not_taken_for_certain(sql):
    assert not is_certain(sql)
