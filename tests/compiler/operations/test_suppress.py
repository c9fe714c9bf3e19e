"""What `suppress` asks of its table, and the store that it names."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headwater.compiler.pipeline import CheckedProject
from headwater.compiler.resources import resources_of
from headwater.compiler.topology.description import describe

TOPICS = """
clicks: {partitions: 2, key: {user: string}, value: {url: string, seconds: int}}
hours: {partitions: 2, windowed: true, key: {user: string}, value: {clicks: bigint}}
"""
TOPOLOGY = """
tables:
  latest: {topic: clicks}
  hourly: {topic: hours}
flows:
  quiet:
    from: FROM
    steps:
      - suppress: SUPPRESS
    to: out
"""

HELD = "stores: {held: {type: key_value}}\n"


def topology(source: str, suppress: str) -> str:
    return TOPOLOGY.replace("FROM", source).replace("SUPPRESS", suppress) + (HELD if "held" in suppress else "")


def test_store_is_named_after_the_flow_and_listed_beside_one_that_a_join_needs(
    compiled: Callable[..., CheckedProject],
) -> None:
    joins = "  joined: {from: clicks, steps: [{join: {table: quiet, values: {last: quiet.url}}}], to: urls}\n"
    was = topology("latest", "{for: 5m}").replace("  quiet:\n", "  quiet:\n    was: [calm]\n")
    project = compiled(TOPICS, was + joins)
    assert not list(project.diagnostics)
    stores = [each.name for each in resources_of(project.loaded, project.model).of_kinds("store")]
    assert sorted(stores) == ["hourly", "latest", "quiet", "quiet-suppress"]
    (graph,) = project.topologies
    assert {store.name: store.type for store in graph.stores} == {
        "hourly": "key_value",
        "latest": "key_value",
        "quiet-suppress": "changes",
        "quiet": "key_value",
    }
    assert graph.was == {"quiet": ("calm",), "quiet-suppress": ("calm-suppress",)}
    assert "# quiet: suppress for 5m, topologies/t.yml:" in describe(graph)


@pytest.mark.parametrize(
    ("source", "suppress", "code", "said"),
    [
        ("clicks", "{for: 5m}", "HW501", "is for tables; this is a stream"),
        ("latest", "{until: window_closes}", "HW501", "no windows that close"),
        ("hourly", "{until: window_closes}", "HW501", "their aggregate is not in this topology"),
        ("latest", "{for: 5m, store: held}", "HW506", "'held' is a key_value store"),
        ("latest", "{for: 5m, when_full: fail}", "HW210", "needs 'max_records'"),
        ("latest", "{max_records: 5}", "HW210", "needs one of several keys"),
        ("latest", "{for: 5m, until: window_closes}", "HW210", "until"),
        ("latest", "{for: 5m, max_records: -1}", "HW208", "max_records"),
    ],
)
def test_what_it_cannot_do_is_said(
    compiled: Callable[..., CheckedProject], source: str, suppress: str, code: str, said: str
) -> None:
    project = compiled(TOPICS, topology(source, suppress))
    found = [(each.code, each.message) for each in project.diagnostics]
    assert any(each == code and said in message for each, message in found), found
