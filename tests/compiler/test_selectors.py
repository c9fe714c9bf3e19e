from __future__ import annotations

import pytest

from headwater.compiler.resources import Resource, Resources
from headwater.compiler.selectors import SelectorError, select


def topic(name: str, *parents: str, tags: tuple[str, ...] = ()) -> Resource:
    return Resource("topic", name, "topics/all.yml", 1, tags=tags, parents=tuple(f"topology.{p}" for p in parents))


def topology(name: str, *parents: str, file: str = "topologies/x.yml", tags: tuple[str, ...] = ()) -> Resource:
    return Resource("topology", name, file, 1, tags=tags, parents=tuple(f"topic.{p}" for p in parents))


# raw -> clean -> cleaned -> hourly -> hours -> report -> reports; other stands alone
EVERYTHING = [
    topic("raw", tags=("source",)),
    topic("cleaned", "clean"),
    topic("hours", "hourly"),
    topic("reports", "report"),
    topic("other", tags=("source",)),
    topology("clean", "raw", file="topologies/daily/clean.yml", tags=("daily",)),
    topology("hourly", "cleaned", file="topologies/hourly.yml"),
    topology("report", "hours", file="topologies/daily/report.yml", tags=("daily", "public")),
]
RESOURCES = Resources({resource.id: resource for resource in EVERYTHING})


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ("hourly", "hourly"),
        ("h*", "hours hourly"),
        ("tag:daily", "clean report"),
        ("path:topologies/daily", "clean report"),
        ("path:topologies/daily/", "clean report"),
        ("path:./topologies/daily", "clean report"),
        ("path:topologies/hourly.yml", "hourly"),
        ("+hourly", "raw clean cleaned hourly"),
        ("2+hourly", "clean cleaned hourly"),
        ("hourly+", "hourly hours report reports"),
        ("hourly+1", "hourly hours"),
        ("1+hourly+1", "cleaned hourly hours"),
        ("tag:daily,path:topologies/daily/r*", "report"),
        ("+report,clean+", "clean cleaned hourly hours report"),
        ("raw other", "raw other"),
        ("+tag:public", "raw clean cleaned hourly hours report"),
    ],
)
def test_selector_names_topics_and_topologies(selector: str, selected: str) -> None:
    found = select(RESOURCES, [selector])

    assert {id_.partition(".")[2] for id_ in found} == set(selected.split())


def test_several_selectors_give_what_any_names() -> None:
    assert select(RESOURCES, ["raw", "other"]) == {"topic.raw", "topic.other"}


def test_no_selector_gives_everything() -> None:
    assert select(RESOURCES, []) == set(RESOURCES.by_id)


@pytest.mark.parametrize(
    "selector", ["nothing", "tag:none", "owner:me", "a++b", "+", "path:topologies/dai", "", " ", "raw,other"]
)
def test_selector_that_names_nothing_is_wrong_use(selector: str) -> None:
    with pytest.raises(SelectorError) as raised:
        select(RESOURCES, [selector])

    assert raised.value.exit_code == 2
    assert raised.value.selector == selector


def test_misspelt_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(SelectorError) as raised:
        select(RESOURCES, ["huorly"])

    assert raised.value.hint == "Did you mean 'hourly'?"


@pytest.mark.parametrize("selector", ["nothing", "tag:none", "path:topologies/dai"])
def test_selector_without_a_near_name_is_answered_with_where_names_are_listed(selector: str) -> None:
    with pytest.raises(SelectorError) as raised:
        select(RESOURCES, [selector])

    assert "`headwater ls`" in (raised.value.hint or "")
