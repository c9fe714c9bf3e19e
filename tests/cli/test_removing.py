"""`headwater reset` and `remove`: what they say, what they refuse, and what is left."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pyarrow as pa
import pytest
from click.testing import Result

from headwater import Project
from headwater.runtime.log.commit.descriptions import (
    StoreDescription,
    SubtopologyDescription,
    TopologyDescription,
    UsedTopic,
)
from headwater.runtime.log.commit.records import EpochRecord, GenerationRecord, TaskCommit
from headwater.runtime.log.state import LogState
from headwater.runtime.records.schema import changelog_topic

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas" / "removal.json").read_text())
Headwater = Callable[..., Result]

BEST = """topology: best
flows:
  best:
    from: daily_sales
    steps:
      - filter: revenue > 15
    to: best_days
"""


def run(project: Project, name: str, reads: str, writer: str | None, writes: str) -> None:
    """What a run of a topology commits: an output, a changelog, a position."""
    application, log = f"shop-{name}", project.log()
    state = LogState.load(log.commits(application))
    topics = {
        topic: UsedTopic(partitions=1, key="product string", value="orders bigint", writer=by)
        for topic, by in ((reads, writer), (writes, application))
    }
    part = SubtopologyDescription(1, (reads,), (writes,), ("totals",))
    store = StoreDescription(1, "key_value", "product string", "orders bigint")
    described = TopologyDescription(name, "1", "h", {"all": part}, topics, {"totals": store}, "i")
    state.commit(GenerationRecord(1, 0, described))
    table = pa.table({"key": [b"k"], "value": [b"v"], "_timestamp": [0]})
    outputs = (writes, changelog_topic(application, "totals"))
    written = [log.write(application, topic, "x", table, 0, 0) for topic in outputs]
    task = TaskCommit("all", 0, {reads: {0: 1}}, 0, segments=(*written[0], *written[1]))
    state.commit(EpochRecord(1, 0, 0, (task,), "i"))


@pytest.fixture
def ran(headwater: Headwater, shop: Path) -> Project:
    """The shop after runs of `sales` and of `best`, which reads what `sales` has written."""
    headwater("seed")
    (shop / "topologies" / "best.yml").write_text(BEST)
    project = Project(shop)
    run(project, "sales", "orders", None, "daily_sales")
    run(project, "best", "daily_sales", "shop-sales", "best_days")
    return project


def applications(project: Project) -> list[str]:
    return project.log().applications()


def test_reset_says_what_goes_and_does_it_only_when_it_is_told_to(headwater: Headwater, ran: Project) -> None:
    told = headwater("reset", "sales+", "--dry-run")
    lines = [line.split() for line in told.stdout.splitlines()]
    assert told.exit_code == 0
    assert ["shop-best", "best_days", "1"] in [line[:3] for line in lines]
    assert ["shop-sales", "shop-sales-totals-changelog", "of", "store", "totals", "1"] in [line[:6] for line in lines]
    assert "read by shop-best, which is removed too" in told.stdout
    assert "orders" not in [line[1] for line in lines if len(line) > 3]
    assert told.stdout.endswith("a dry run: nothing was changed\n")
    assert headwater("reset", "sales+", stdin="n\n").exit_code == 1
    assert applications(ran) == ["shop-best", "shop-sales", "shop-seed"]

    done = headwater("reset", "sales+", "--yes")

    assert done.stdout.startswith(told.stdout.removesuffix("a dry run: nothing was changed\n"))
    assert done.stdout.endswith("shop-sales is reset: the next run reads its topics from the first records\n")
    assert applications(ran) == ["shop-seed"]
    assert len(headwater("read", "orders").stdout.splitlines()) > 5
    assert (
        headwater("reset", "sales", "--yes").stdout == "nothing to reset: the topologies have not committed anything\n"
    )


def test_reset_and_remove_list_what_goes_as_json(headwater: Headwater, shop: Path, ran: Project) -> None:
    listed = json.loads(headwater("reset", "sales+", "--dry-run", "--format", "json").stdout)
    jsonschema.validate(listed, SCHEMA)
    assert listed["dry_run"]
    found = {each["application"]: each for each in listed["applications"]}
    assert {name: each["read_by"] for name, each in found.items()} == {"shop-sales": ["shop-best"], "shop-best": []}
    assert (found["shop-sales"]["stores"], found["shop-sales"]["whole"]) == (["totals"], True)
    written = {each["topic"]: each["records"] for each in found["shop-sales"]["topics"]}
    assert written == {"daily_sales": 1, "shop-sales-totals-changelog": 1}
    assert applications(ran) == ["shop-best", "shop-sales", "shop-seed"]
    (shop / "topologies" / "best.yml").unlink()
    removed = json.loads(headwater("remove", "shop-best", "--yes", "--format", "json").stdout)
    jsonschema.validate(removed, SCHEMA)
    assert [each["application"] for each in removed["applications"]] == ["shop-best"]
    assert applications(ran) == ["shop-sales", "shop-seed"]


def test_reset_without_a_reader_of_the_output_is_refused_with_the_command_that_resets_both(
    headwater: Headwater, ran: Project
) -> None:
    refused = headwater("reset", "sales", "--yes")
    assert refused.exit_code == 1
    assert refused.stderr == (
        "error: shop-best has read daily_sales, whose records would be removed\n"
        "  hint: its readers start again with it: `headwater reset sales best`\n"
    )
    assert headwater("reset", "best", "--yes").exit_code == 0
    assert applications(ran) == ["shop-sales", "shop-seed"]


def test_reset_refuses_what_is_no_topology_and_what_has_committed_since(headwater: Headwater, ran: Project) -> None:
    assert "'orders' selects no topology" in headwater("reset", "orders").stderr
    planned = ran.plan_reset(["best"])
    LogState.load(ran.log().commits("shop-best")).commit(EpochRecord(1, 1, 0, (), "i"))
    with pytest.raises(Exception, match="shop-best has committed something since this was planned"):
        ran.remove(planned)
    assert "shop-best" in applications(ran)


def test_removed_topology_and_the_topic_that_only_it_has_read_are_removed(
    headwater: Headwater, shop: Path, ran: Project
) -> None:
    refused = headwater("remove", "best")
    assert (refused.exit_code, refused.stderr.splitlines()[0]) == (
        2,
        "error: topology best is in the project (topologies/best.yml:1)",
    )
    assert "topic orders is in the project (topics/orders.yml:" in headwater("remove", "orders").stderr
    for file in ("best", "sales"):
        (shop / "topologies" / f"{file}.yml").unlink()
    assert "hint: did you mean 'shop-sales'?" in headwater("remove", "shop-sale").stderr
    assert "shop-best has read daily_sales" in headwater("remove", "sales", "--yes").stderr

    (shop / "topics" / "orders.yml").unlink()
    (shop / "topologies" / "other.yml").write_text("topology: other\nflows:\n  all:\n    from: more\n    to: most\n")
    (shop / "topics" / "more.yml").write_text("topics:\n  more:\n    partitions: 1\n    value:\n      a: int\n")
    first = headwater("remove", "orders", "--yes")
    assert first.exit_code == 1, first.output
    assert "shop-sales has read orders" in first.stderr
    done = headwater("remove", "orders", "sales", "best", "--yes")

    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-3:] == ["shop-sales removed", "shop-best removed", "orders removed"]
    seeds = LogState.load(ran.log().commits("shop-seed"))
    assert (applications(ran), seeds.written(), seeds.topics, seeds.seeds) == (["shop-seed"], set(), {}, {})


def test_rewind_says_what_is_read_again_and_moves_the_reader_only_when_it_is_told_to(
    headwater: Headwater, ran: Project
) -> None:
    where = ("rewind", "best", "--topic", "daily_sales", "--to", "earliest")
    refused = headwater(*where, "--yes")
    assert refused.exit_code == 1
    assert refused.stderr.splitlines()[0] == (
        "error: shop-best would read 1 record again, which stores have already: totals of shop-best"
    )
    assert "`headwater reset 'best+'` starts it again" in refused.stderr
    told = headwater(*where, "--keep-state", "--dry-run").stdout.splitlines()
    assert [line.split() for line in told[1:2]] == [["0", "0", "1", "1", "0"]]
    assert told[2:] == ["1 record counts once more in totals of shop-best", "a dry run: nothing was changed"]
    assert headwater(*where, "--keep-state", stdin="n\n").exit_code == 1

    assert headwater(*where, "--keep-state", "--yes").stdout.endswith("shop-best resumes there with its next run\n")

    state = LogState.load(ran.log().commits("shop-best"))
    (task,) = state.tasks.all()
    assert (task.positions, state.generation) == ({"daily_sales": {0: 0}}, 2)
    again = headwater(*where, "--keep-state", "--yes").stdout
    assert again.endswith("shop-best is there already: nothing to change\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("best", "--topic", "orders", "--to", "latest"), "shop-best has no position in orders that can be moved"),
        (
            ("best", "--topic", "daily_sales", "--to", "offset:9"),
            "partition 0 of daily_sales ends at offset 1, before 9",
        ),
        (("best", "--topic", "daily_sales", "--to", "offset"), "'offset' is not of the form offset:N"),
        (("best", "--topic", "daily_sales", "--to", "now"), "'now' is neither milliseconds nor a time such as"),
        (("best", "--topic", "daily_sales", "--to", "latest", "--partition", "1"), "the topic has 1 partition"),
        (("sales+", "--topic", "orders", "--to", "latest"), "'sales+' selects best, sales"),
    ],
)
def test_reader_that_cannot_be_moved_like_that_is_refused(
    headwater: Headwater, ran: Project, arguments: tuple[str, ...], said: str
) -> None:
    before = LogState.load(ran.log().commits("shop-best")).number
    refused = headwater("rewind", *arguments, "--yes")
    assert refused.exit_code == 2
    assert said in refused.stderr
    assert LogState.load(ran.log().commits("shop-best")).number == before
