"""Topics that somebody else feeds or writes from one run to the next. Each way out works as it is told."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.runtime.changes.model import Verdict
from headwater.runtime.log.declared_topics import WriterChangedError
from headwater.tests.cli.planned import FILES, Shop

BACK, TOPICS = "topologies/back.yml", "topics/topics.yml"
BACK_ORDERS = """
  back_orders:
    partitions: 2
    key: {order_id: bigint}
    value: {product: string, quantity: int}
"""


def topology(name: str, source: str, sink: str) -> str:
    return f"topology: {name}\nflows:\n  {name}:\n    from: {source}\n    to: {sink}\n"


def records(numbers: range) -> list[dict[str, object]]:
    return [{"order_id": n, "product": "tea", "quantity": n, "timestamp": 1000 * n} for n in numbers]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """`returns` is appended to, topology back copies it to `back_orders`, and seen that to `seen_orders`."""
    files = {BACK: topology("back", "returns", "back_orders")}
    files["topologies/seen.yml"] = topology("seen", "back_orders", "seen_orders")
    made = Shop.made(tmp_path / "shop", {TOPICS: FILES[TOPICS], "headwater.yml": FILES["headwater.yml"], **files})
    made = Shop.made(made.root, {"profiles.yml": FILES["profiles.yml"], "seeds/orders.csv": FILES["seeds/orders.csv"]})
    made.judge().project().seed()
    made.project().append("returns", records(range(6)))
    caught_up(made)
    return made


def caught_up(shop: Shop) -> None:
    assert {each.status for each in shop.run()} == {"caught_up"}


def orders(shop: Shop, topic: str) -> list[int]:
    return sorted(each.key["order_id"] for each in shop.project().read(topic))


def commands(shop: Shop) -> Iterator[str]:
    """Those of the ways out that the plan gives."""
    for change in shop.judge().project().plan().changes:
        yield from (way.command for way in change.ways if way.command)


def followed(shop: Shop, command: str) -> None:
    """Do what a shell would, with `jq -c 'del(.partition)'` done here."""
    for part in command.split(" && "):
        piped = [shlex.split(each) for each in part.partition(" > ")[0].split(" | ")]
        output = shop.headwater(*piped[0][1:], *(["--yes"] if piped[0][1] == "remove" else []))
        assert output.exit_code == 0, output.output
        if len(piped) == 1:
            continue
        lines = [json.loads(line) for line in output.stdout.splitlines()]
        kept = shop.root / "kept.jsonl"
        kept.write_text(
            "".join(json.dumps({k: v for k, v in each.items() if k != "partition"}) + "\n" for each in lines)
        )
        if len(piped) == 3:
            output = shop.headwater(*piped[2][1:], "--file", str(kept))
            assert output.exit_code == 0, output.output


def test_topic_with_appended_records_is_not_written_before_they_are_somewhere_else(shop: Shop) -> None:
    """Nobody would read them any more."""
    shop.edit(TOPICS, "  returns:", "  others:")
    shop.edit(BACK, "    from: returns\n    to: back_orders", "    from: orders\n    to: returns")
    shop.edit(BACK, "  back:", "  rest:\n    from: others\n    to: back_orders\n  back:")
    plan = shop.judge().project().plan()
    assert plan.verdict is Verdict.ERROR
    (fed,) = [each for each in plan.changes if each.kind == "topic.fed"]
    assert fed.what == (
        "it was external so far, and is written by shop-back now: its appended records would have no readers any more"
    )
    assert "its appended records would have no readers any more" in str([each.error for each in shop.run()])
    assert orders(shop, "returns") == list(range(6))

    followed(shop, fed.ways[-1].command.replace("OTHER", "others"))
    assert shop.judge().project().plan().verdict is Verdict.REPLACE
    caught_up(shop)
    assert orders(shop, "returns") == [1, 2, 3, 4, 5]
    assert orders(shop, "others") == orders(shop, "back_orders") == orders(shop, "seen_orders") == list(range(6))
    assert not shop.judge().project().plan().changes


def test_topic_of_a_removed_topology_goes_on_with_its_records_as_fed_ones(shop: Shop) -> None:
    (shop.root / BACK).unlink()
    shop.edit(TOPICS, "topics:\n", f"topics:{BACK_ORDERS}")
    assert orders(shop, "back_orders") == list(range(6))  # still there to be read
    with pytest.raises(WriterChangedError):
        shop.judge().project().append("back_orders", records(range(6, 8)))
    refused = shop.run()
    assert "it was written by shop-back so far, and is external now" in str(refused[0].error)

    keep, _ = commands(shop)
    followed(shop, keep.replace("back_orders.jsonl", str(shop.root / "kept.jsonl")))
    shop.project().append("back_orders", records(range(6, 8)))
    assert shop.judge().project().plan().verdict is Verdict.REPLACE
    assert orders(shop, "seen_orders") == list(range(6))
    caught_up(shop)
    assert orders(shop, "back_orders") == orders(shop, "seen_orders") == list(range(8))
    assert not shop.judge().project().plan().changes


def test_topic_of_a_removed_topology_begins_with_nothing_once_its_records_are_removed(shop: Shop) -> None:
    back = (shop.root / BACK).read_text()
    (shop.root / BACK).unlink()
    shop.edit(TOPICS, "topics:\n", f"topics:{BACK_ORDERS}")
    followed(shop, list(commands(shop))[-1])
    shop.project().append("back_orders", records(range(6, 8)))
    caught_up(shop)
    assert orders(shop, "back_orders") == orders(shop, "seen_orders") == [6, 7]

    # And back: the topology would go on behind records that are gone, so it is computed again.
    shop.headwater("remove", "back_orders", "--yes")
    (shop.root / BACK).write_text(back)
    (fed,) = [each for each in shop.judge().project().plan().changes if each.kind == "topic.fed"]
    followed(shop, fed.ways[-1].command.partition(" && ")[2])
    told = {each.kind for each in shop.judge().project().plan().changes}
    assert {"topic.returned", "topology.recomputed"} <= told
    caught_up(shop)
    assert orders(shop, "back_orders") == orders(shop, "seen_orders") == list(range(6))


def test_topology_that_was_removed_and_comes_back_goes_on_with_what_has_come_meanwhile(shop: Shop) -> None:
    files = {path: path.read_text() for path in (shop.root / "topologies").iterdir()}
    other = shop.root / "topologies" / "other.yml"
    other.write_text(topology("other", "orders", "copied"))
    for path in files:
        path.unlink()
    caught_up(shop)
    shop.project().append("returns", records(range(6, 8)))
    caught_up(shop)
    for path, text in files.items():
        path.write_text(text)
    assert shop.judge().project().plan().verdict is Verdict.NOTHING
    caught_up(shop)
    assert orders(shop, "back_orders") == orders(shop, "seen_orders") == list(range(8))
