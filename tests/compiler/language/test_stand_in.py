"""What a plan takes for the types of expressions without Spark: Spark's own, or none at all."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.compiler.diagnostics import Diagnostics, Position
from headwater.compiler.language.expressions import Scope
from headwater.compiler.language.type_checker import TypeChecker, UntypedAnalyzer, VerdictCache
from headwater.compiler.language.udfs import read
from headwater.compiler.reading.source import FixedOrigin, ScalarNode
from headwater.runtime.expressions.analyzer import Request, Verdict
from headwater.runtime.records.names import UNKNOWN_TYPES
from headwater.tests.compiler.verdicts import recorded


def test_type_is_that_of_spark_or_is_not_known() -> None:
    judged = {request: verdict for request, verdict in recorded().items() if isinstance(verdict, str)}

    found = dict(zip(judged, UntypedAnalyzer().analyze(list(judged)), strict=True))

    known = {request: type_ for request, type_ in found.items() if type_ not in UNKNOWN_TYPES}
    assert {request: judged[request] for request in known} == known
    assert len(known) > len(judged) / 3


class Starting:
    """An analyzer that is told why it starts."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def because(self, reason: str) -> None:
        self.told.append(reason)

    def analyze(self, requests: Sequence[Request]) -> list[Verdict]:
        return ["string" for _ in requests]


def test_analyzer_is_told_the_first_expression_that_needs_it_and_how_many_more() -> None:
    scope, analyzer, diagnostics = Scope({}, {"t": "string"}), Starting(), Diagnostics()
    checker = TypeChecker(analyzer, VerdictCache(None), diagnostics)
    asked = []
    for line, sql in ((7, "soundex(t)"), (3, "xxhash64(t)"), (5, "upper(t)"), (9, "xxhash64(t, t)")):
        at = Position("f.yml", line, 2)
        expression = read(ScalarNode(sql, sql, at, FixedOrigin(at)), scope, diagnostics)
        assert expression is not None
        asked.append((expression, scope))
    checker.types(asked[2:3])
    assert analyzer.told == []
    checker.types(asked)
    assert analyzer.told == [
        "f.yml:3:2: xxhash64(t): the type of `xxhash64` is only known to Spark (to do without: "
        "use functions that are typed without Spark, or a Python function), and 2 more"
    ]
