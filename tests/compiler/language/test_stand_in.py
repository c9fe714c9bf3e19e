"""What a plan takes for the types of expressions without Spark: Spark's own, or none at all."""

from __future__ import annotations

from verdicts import recorded

from headwater.compiler.language.stand_in import Unjudged
from headwater.runtime.records.unknown_types import UNKNOWN_TYPES


def test_type_is_that_of_spark_or_is_not_known() -> None:
    judged = {request: verdict for request, verdict in recorded().items() if isinstance(verdict, str)}

    found = dict(zip(judged, Unjudged().analyze(list(judged)), strict=True))

    known = {request: type_ for request, type_ in found.items() if type_ not in UNKNOWN_TYPES}
    assert {request: judged[request] for request in known} == known
    assert len(known) > len(judged) / 3
