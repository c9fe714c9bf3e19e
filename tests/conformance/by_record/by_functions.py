"""Topologies without windows whose aggregates are Python of the project, each beside the same of single steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headwater.tests.conformance.by_record.functions import Capped, Greatest, Signed, UntilSeven
from headwater.tests.conformance.by_record.groups import Grouped, RegroupedBy
from headwater.tests.conformance.by_record.nodes import Latest
from headwater.tests.conformance.by_record.scenarios import Scenario, line


def by_functions() -> dict[str, Scenario]:
    """All of them by name."""
    return dict(_without_windows())


def _without_windows() -> Iterator[tuple[str, Scenario]]:
    yield "by a class", line([_by_class("Capped")], lambda: Grouped(Capped(3)))
    yield "reduced", line([_reduced("greater")], lambda: Grouped(Greatest()))
    yield "reduced to nothing", line([_reduced("until_seven")], lambda: Grouped(UntilSeven()))
    signed = {
        "aggregate": {"function": "functions.windows:Signed", "values": {"text": "string"}, "emit": "each_update"}
    }
    yield (
        "table by a class",
        line(
            [{"key_by": {"k": "g"}}, signed],
            Latest,
            lambda: RegroupedBy(lambda row: row["g"], Signed()),
            start="t",
            tables={"t": {"topic": "A", "emit": "each_update"}},
        ),
    )


def _by_class(name: str) -> Any:
    values = {"every": "array<bigint>"}
    return {"aggregate": {"function": f"functions.windows:{name}", "values": values, "emit": "each_update"}}


def _reduced(name: str) -> Any:
    return {"reduce": {"function": f"functions.windows:{name}", "emit": "each_update"}}
