"""Settings that change nothing of what is committed: a plan names each, with its value of before and of now."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headwater.runtime.changes.model import Change, Verdict
from headwater.runtime.log.commit.descriptions import TopologyDescription
from headwater.runtime.log.commit.encoding import from_plain, to_plain
from headwater.tests.cli.planned import FILES, Shop

SALES, BEST, TOPICS = "topologies/sales.yml", "topologies/best.yml", "topics/topics.yml"

CHANGES: dict[str, tuple[str, str, str, list[str]]] = {
    "a flow's on_error": (
        SALES,
        "    from: orders\n",
        "    from: orders\n    on_error: dead_letter\n",
        [
            "flow wanted: its on_error was fail, is dead_letter; it applies to records that fail from now on",
            "topic orders: its failing records are kept in sales_orders_dead_letter from now on",
        ],
    ),
    "a topic's on_error": (
        TOPICS,
        "  orders:\n",
        "  orders:\n    on_error: skip\n",
        ["topic orders: its on_error was fail, is skip; it applies to records that fail from now on"],
    ),
    "a topic's retention": (
        TOPICS,
        "  orders:\n",
        "  orders:\n    retention: 7d\n",
        ["topic orders: its retention was forever, is 7d; it applies to all records"],
    ),
    "a topic's timestamp, without its seed": (
        TOPICS,
        "timestamp}\n    timestamp: ordered_at\n    seed: {path: seeds/orders.csv}\n",
        "timestamp}\n",
        ["topic orders: its timestamp was ordered_at, is none; it applies to records that are appended from now on"],
    ),
    "emit": (
        SALES,
        "          store: totals\n",
        "          store: totals\n          emit: each_update\n",
        ["flow wanted: its emit was per_epoch, is each_update; it applies to records written from now on"],
    ),
    "an assignor": (
        SALES,
        "topology: sales\n",
        "topology: sales\nassignment: {assignor: sticky}\n",
        ["topology sales: its assignor was high_availability, is sticky; it applies to the next assignment of tasks"],
    ),
    "the cleanup of a changelog": (
        SALES,
        "retention: 30d",
        "retention: 30d, changelog: {cleanup: compact}",
        [
            "store totals: its changelog cleanup was compact,delete, is compact; the changelog is cleaned in that way "
            "from now on"
        ],
    ),
    "a description": (SALES, "topology: sales\n", "topology: sales\ndescription: of a day\n", []),
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return Shop.built(tmp_path_factory.mktemp("built") / "shop", FILES)


@pytest.fixture
def shop(built: Shop, tmp_path: Path) -> Shop:
    return built.copied(tmp_path / "shop")


def told(changes: tuple[Change, ...]) -> list[str]:
    return [f"{each.subject}: {each.what}" for each in changes]


@pytest.mark.parametrize("name", CHANGES)
def test_changed_setting_is_named_with_what_comes_of_it_and_the_run_goes_on(shop: Shop, name: str) -> None:
    file, old, new, expected = CHANGES[name]
    deployed = shutil.copy(shop.root / "target" / "manifest.json", shop.root / "deployed.json")
    shop.edit(file, old, new).judge()

    plan = shop.project().plan()

    assert told(plan.changes) == expected
    assert plan.verdict is (Verdict.COMPATIBLE if expected else Verdict.NOTHING)
    assert told(shop.project().plan(against=deployed).changes) == expected
    assert {each.status for each in shop.run()} == {"caught_up"}
    assert shop.project().plan().changes == ()
    shop.edit(file, new, old).judge()
    assert len(shop.project().plan().changes) == len(expected)


def test_reader_of_a_topic_with_another_column_has_no_second_verdict(shop: Shop) -> None:
    shop.edit(SALES, "sold: sum(quantity)", "sold: sum(quantity)\n            most: max(quantity)").judge()

    (best,) = [each for each in shop.project().plan().applications if each.topology == "best"]

    assert {each.verdict for each in best.changes if each.subject.kind == "topology"} == {Verdict.REPLACE}
    assert not any("files changed" in each.what for each in best.changes)


def test_names_of_before_are_told_against_a_manifest_too(shop: Shop) -> None:
    deployed = shutil.copy(shop.root / "target" / "manifest.json", shop.root / "deployed.json")
    shop.edit(BEST, "topology: best", "topology: finest\nwas: best")
    shop.edit(SALES, "  totals: {", "  sums: {was: totals, ").edit(SALES, "store: totals", "store: sums").judge()

    plan = shop.project().plan(against=deployed)

    assert sorted(told(plan.changes)) == [
        "store sums: it was called totals, and resumes where that was",
        "topology finest: it was called best, and resumes from its committed state",
    ]
    assert sorted(told(shop.project().plan().changes)) == sorted(told(plan.changes))


def test_settings_of_an_application_are_read_from_its_commit_as_they_were_written(shop: Shop) -> None:
    topology = shop.project()._code.topologies()[0]
    described = TopologyDescription.from_topology(topology)
    assert described.settings
    assert from_plain(TopologyDescription, to_plain(described)) == described
