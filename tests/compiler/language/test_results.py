"""The constant results of an expression, at their places in the text."""

from __future__ import annotations

import pytest

from headwater.compiler.language.certain import results
from headwater.compiler.language.expressions import Scope
from headwater.tests.compiler.language.test_expressions import expression

SCOPE = Scope({}, {"x": "bigint", "name": "string"})


@pytest.mark.parametrize(
    ("sql", "constants", "complete"),
    [
        ("name", "", False),
        ("'a'", "a@0", True),
        ("('a')", "a@1", True),
        ("case when x > 1 then 'a' else 'b' end", "a@21 b@30", True),
        ("case x when 1 then 'a' when 2 then null end", "a@19", True),
        ("if(x > 1, 'a', if(x > 0, 'b', name))", "a@10 b@25", False),
        ("coalesce(name, 'a')", "a@15", False),
        ("case when name = 'a' then 'a' else concat('b', name) end", "a@26", False),
        ("if(name = 'a', 'a', 'b')", "a@15 b@20", True),
        ("concat('a', 'b')", "", False),
        ("null", "", True),
        ("1", "", False),
    ],
)
def test_results_that_are_constants_are_found_also_in_branches(sql: str, constants: str, complete: bool) -> None:
    read, diagnostics = expression(sql, SCOPE)
    assert read is not None, list(diagnostics)
    found = results(read)
    assert " ".join(f"{each.text}@{each.start}" for each in found.constants) == constants
    assert all(sql[each.start : each.end] == f"'{each.text}'" for each in found.constants)
    assert found.complete == complete
