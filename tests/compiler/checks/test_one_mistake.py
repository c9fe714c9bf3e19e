"""One mistake has one message: nothing that follows from it is reported, and no mistake beside it is hidden."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.compiler.pipeline import CheckedProject, compile_project

Compile = Callable[..., CheckedProject]

TOPICS = """
clicks:
  partitions: 1
  key: {user: string}
  value: {url: string, seconds: int, tags: "array<string>"}
"""
FLOWS = """
stores:
  counts: {}
flows:
  long:
    from: clicks
    steps:
      - filter: seconds > 3
  counted:
    from: long
    steps:
      - aggregate:
          store: counts
          values: {n: count(*)}
    to: counts_of_users
"""


MERGED = """
base: &base
  partitions: 1
  value: {n: int}
other:
  <<: *base
  value: {url: string}
"""


def codes(project: CheckedProject) -> list[str]:
    return [found.code for found in project.diagnostics]


@pytest.mark.parametrize(
    ("right", "wrong", "code"),
    [
        ("from: long", "from: lomg", "HW302"),
        ("from: long", "form: long", "HW201"),
        ("store: counts", "store: coumts", "HW304"),
        ("store: counts", "stores: counts", "HW201"),
        ("stores:", "store:", "HW201"),
        ("flows:", "flow:", "HW201"),
        ("steps:\n      - aggregate:", "step:\n      - aggregate:", "HW201"),
        ("- aggregate:", "- agregate:", "HW201"),
        ("filter: seconds > 3", "filter: seconds >", "HW401"),
        ("filter: seconds > 3", "with_colums: {much: seconds}", "HW201"),
        ("store: counts\n", "<<: {store: counts}\n", "HW020"),
        ("store: counts\n          values: {n: count(*)}", "<<: [{store: counts}, {values: {n: count(*)}}]", "HW020"),
        ("values: {n: count(*)}", "values: {1: count(*)}", "HW022"),
        ("filter: seconds > 3", "1: seconds > 3", "HW022"),
        ("steps:\n      - aggregate:", "null:\n      - aggregate:", "HW022"),
    ],
)
def test_mistake_in_a_topology_has_one_message(compiled: Compile, right: str, wrong: str, code: str) -> None:
    assert right in FLOWS
    assert codes(compiled(TOPICS, FLOWS.replace(right, wrong), parse=True)) == [code]


@pytest.mark.parametrize(
    ("right", "wrong", "code"),
    [
        ("value:", "values:", "HW201"),
        ("value:", "columns:", "HW201"),
        ("key:", "keys:", "HW201"),
        ("seconds: int", "seconds: {type: int}", "HW203"),
        ("seconds: int", "seconds: integr", "HW207"),
        ("clicks:", "clicks: 1\nother:", "HW203"),
        ("{user: string}", "{user: string", "HW010"),
    ],
)
def test_mistake_in_a_topic_has_one_message(compiled: Compile, right: str, wrong: str, code: str) -> None:
    assert right in TOPICS
    assert codes(compiled(TOPICS.replace(right, wrong, 1), FLOWS, parse=True)) == [code]


def test_topology_that_does_not_parse_makes_its_topics_no_mistake_elsewhere(compiled: Compile) -> None:
    reader = "tables:\n  counts: {topic: counts_of_users}\nflows:\n  all:\n    from: counts_of_users\n    to: copies\n"
    broken = FLOWS.replace("from: clicks", "from: [clicks")
    assert codes(compiled(TOPICS, FLOWS, reader, parse=True)) == []
    assert codes(compiled(TOPICS, broken, reader, parse=True)) == ["HW010"]


def test_misspelt_target_makes_its_topic_no_mistake_elsewhere(compiled: Compile) -> None:
    reader = "flows:\n  all:\n    from: counts_of_users\n    to: copies\n"
    broken = FLOWS.replace("to: counts_of_users", "too: counts_of_users")
    assert codes(compiled(TOPICS, broken, reader, parse=True)) == ["HW201"]


def test_vars_that_cannot_be_read_make_no_variable_unknown(tmp_path: Path, compiled: Compile) -> None:
    compiled(TOPICS, FLOWS.replace("> 3", "> {{ var('most') }}"), parse=True)
    file = tmp_path / "headwater.yml"
    file.write_text(file.read_text() + "vars: [most]\n")
    assert codes(compile_project(tmp_path)) == ["HW203"]


def test_unused_flow_beside_no_mistake_is_still_told(compiled: Compile) -> None:
    assert codes(compiled(TOPICS, FLOWS.replace("    to: counts_of_users\n", ""), parse=True)) == ["HW310"]


def places(project: CheckedProject) -> list[tuple[str, str]]:
    """The code and the text that is marked, of each finding."""
    lines = {name: text.split("\n") for name, text in project.loaded.sources.items()}
    return [
        (found.code, lines[at.file][at.line - 1][at.column - 1 : (at.end_column or at.column + 1) - 1])
        for found in project.diagnostics
        for at in [found.position]
    ]


def test_all_mistakes_of_an_expression_are_told_together(compiled: Compile) -> None:
    flows = FLOWS.replace("seconds > 3", "uper(ulr) = user or secnds > now() and cast(tags as text) = rand()")
    assert places(compiled(TOPICS, flows, parse=True)) == [
        ("HW405", "uper"),
        ("HW403", "ulr"),
        ("HW403", "secnds"),
        ("HW406", "now"),
        ("HW207", "text"),
        ("HW406", "rand"),
    ]


def test_all_mistakes_of_an_aggregate_are_told_together(compiled: Compile) -> None:
    flows = FLOWS.replace("count(*)", "median(secnds) + sum(distinct seconds) + max(ulr)")
    assert places(compiled(TOPICS, flows, parse=True)) == [
        ("HW409", "median"),
        ("HW403", "secnds"),
        ("HW409", "sum"),
        ("HW403", "ulr"),
    ]


def test_each_column_outside_of_an_aggregate_is_told(compiled: Compile) -> None:
    flows = FLOWS.replace("count(*)", "sum(seconds) + seconds + size(tags)")
    assert places(compiled(TOPICS, flows, parse=True)) == [("HW410", "seconds"), ("HW410", "tags")]


def test_merge_key_of_a_topic_gives_its_keys_to_what_follows(compiled: Compile) -> None:
    flows = "flows:\n  copied: {from: other, steps: [{filter: length(url) > 3}], to: copies}\n"

    assert codes(compiled(MERGED, flows, parse=True)) == ["HW020"]


ROUTED = "flows:\n  visits:\n    from: clicks\n    to: {route: user, topics: [visits_of_a, visits_of_b]}\n"


@pytest.mark.parametrize(
    ("right", "wrong", "code"),
    [
        ("route: user", "rout: user", "HW201"),
        ("topics: [visits_of_a, visits_of_b]", "topic: [visits_of_a, visits_of_b]", "HW201"),
        ("[visits_of_a, visits_of_b]", "visits_of_a", "HW203"),
        ("visits_of_a,", "5,", "HW203"),
        ("visits_of_a,", "visits_of_b, visits_of_a,", "HW208"),
        ("{route: user, topics: [visits_of_a, visits_of_b]}", "[visits_of_a, visits_of_b]", "HW203"),
        ("route: user", "route: usr", "HW403"),
        ("to:", "too:", "HW201"),
    ],
)
def test_mistake_in_a_route_makes_its_topics_no_mistake_elsewhere(
    compiled: Compile, right: str, wrong: str, code: str
) -> None:
    assert right in ROUTED
    reader = "flows:\n  all:\n    from: visits_of_a\n    to: copies\n"
    assert codes(compiled(TOPICS, ROUTED, reader, parse=True)) == []
    assert codes(compiled(TOPICS, ROUTED.replace(right, wrong), reader, parse=True)) == [code]
