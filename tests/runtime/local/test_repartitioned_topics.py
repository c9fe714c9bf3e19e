"""Topics that are fed from outside get another partition count or key: records are put there, and results follow."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwater.runtime.changes.model import Verdict
from headwater.runtime.driver.events import EpochCommitted, RecomputationBegun, ResultSwitched, TopicRepartitioned
from headwater.runtime.driver.runs import changes_at_start
from headwater.runtime.ingest.repartition import repartition
from headwater.runtime.ingest.retry import LettersOutdatedError, retry
from headwater.runtime.ir.topology import Topology, dead_letter_topic
from headwater.runtime.log.cleaning.cleaner import clean_completely
from headwater.runtime.log.cleaning.deletions import Policy
from headwater.runtime.log.cleaning.readers import Readers, declared_readers
from headwater.runtime.log.inspection.verification import Verification
from headwater.runtime.log.places import Places
from headwater.tests.runtime.local.ended_process import ended_at_commit
from headwater.tests.runtime.local.fed_project import SEEDS, FedProject, Shape
from headwater.tests.runtime.local.local_application import Stopping
from headwater.tests.runtime.local.test_rebalance import Story
from headwater.tests.waiting import wait_until

FIRST = [(f"k{n % 9}", n, 100 + 3 * n) for n in range(40)]
LATE = [(f"k{n % 5}", 7 * n, 60 + 11 * n) for n in range(25)]
NAMES = [(f"k{n % 9}", None if n % 8 == 7 else f"name {n}", 95 + 5 * n) for n in range(30)]
MORE = [(f"k{n}", n, 400 + n) for n in range(12)]


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> FedProject:
    """A project that has run, and that has got more records since."""
    made = FedProject(tmp_path_factory.mktemp("begun") / "project")
    made.append("words", FIRST)
    made.append("names", NAMES)
    made.went_well()
    made.append("words", LATE)
    return made


@pytest.fixture
def project(begun: FedProject, tmp_path: Path) -> FedProject:
    return begun.copy(tmp_path / "project")


def topologies(project: FedProject, *names: str) -> list[Topology]:
    return [each for each, _ in project.shape.topologies() if not names or each.name in names]


def changes(project: FedProject, *names: str) -> dict[str, list[tuple[str, Verdict, str]]]:
    """What a run would make of it, without running."""
    judged = changes_at_start(topologies(project, *names), project.app.settings())
    return {name: [(each.kind, each.verdict, each.what) for each in found] for name, found in judged.changes.items()}


def refusals(project: FedProject, *names: str) -> dict[str, list[str]]:
    found = changes(project, *names)
    return {name: [kind for kind, verdict, _ in each if verdict is Verdict.ERROR] for name, each in found.items()}


def by_key(result: dict[str, Any]) -> dict[str, Any]:
    """The same, sorted by key: records of a key keep their order."""
    return {
        name: sorted(rows, key=lambda row: row["key.k"] if isinstance(row, dict) else row)
        for name, rows in result.items()
    }


@pytest.mark.parametrize("partitions", [3, pytest.param(8, marks=pytest.mark.soak)])
def test_other_partition_count_puts_records_there_and_computes_all_results_again(project, partitions):
    project.shape = replace(project.shape, partitions=partitions)
    said = [what for kind, _, what in changes(project)["test-joins"] if kind == "topic.repartitioned"]
    assert said == [
        f"its 30 records are put into {partitions} partitions instead of 4",
        f"its 65 records are put into {partitions} partitions instead of 4",
    ]
    story = Story()
    project.went_well(observer=story)
    assert project.result() == project.fresh()
    assert [(each.topic, each.records, each.was, each.partitions) for each in story.of(TopicRepartitioned)] == [
        ("words", 65, 4, partitions),
        ("names", 30, 4, partitions),
    ]
    names = ["test-sums", "test-windows", "test-joins", "test-late"]
    assert [each.application for each in story.of(RecomputationBegun)] == names
    assert [each.application for each in story.of(ResultSwitched)] == names
    assert [each.damages for each in Verification(project.log).run()] == [()] * 6
    project.append("words", MORE)
    after = Story()
    project.went_well(observer=after)
    assert (after.of(TopicRepartitioned), after.of(RecomputationBegun)) == ([], [])
    assert project.result() == project.fresh()


@pytest.mark.parametrize("commits", [13, *(pytest.param(each, marks=pytest.mark.soak) for each in (1, 25))])
def test_run_that_ends_at_any_commit_is_gone_on_with(project, commits):
    project.shape = replace(project.shape, partitions=6)
    stopping = Stopping(commits)
    project.run(observer=stopping, stop=stopping.stop)
    project.append("words", MORE)
    project.went_well()
    assert project.result() == project.fresh()


def test_result_that_was_begun_on_the_records_as_they_lay_before_is_not_gone_on_with(project):
    project.shape = replace(project.shape, partitions=3)
    stopping = Stopping(9)
    project.run(observer=stopping, stop=stopping.stop)
    for count in (2, 3):  # by hand: a run that has ended right behind its switch, and the change undone
        repartition(
            project.log, SEEDS, [getattr(replace(project.shape, partitions=count), t) for t in ("words", "names")]
        )
    project.went_well()
    assert project.result() == project.fresh()


@pytest.mark.parametrize("when", ["before", "after"])
def test_process_that_ends_at_the_switch_leaves_the_topics_of_before_or_those_of_now(project, when):
    old, shape = project.result(), project.shape
    project.shape = replace(shape, partitions=3)
    number = project.state("seed").number + 1
    with ended_at_commit(project.app.log, SEEDS, number, when):
        project.run()
    topics = {name: topic.partitions for name, topic in project.state("seed").topics.items()}
    assert topics == dict.fromkeys(("words", "names"), 4 if when == "before" else 3)
    now, project.shape = project.shape, shape
    assert project.result() == old  # also where the topics have switched: results stand still until they are followed
    project.shape = now
    verdicts = {verdict for found in changes(project).values() for _, verdict, _ in found}
    assert verdicts <= {Verdict.REPLACE, Verdict.COMPATIBLE}
    project.went_well()
    assert project.result() == project.fresh()


def test_seeded_topic_keeps_its_seed_and_what_was_appended_behind_it(tmp_path):
    project = FedProject(tmp_path / "project")
    project.append("words", FIRST[:7])
    project.seed([(f"k{n % 6}", n, 0) for n in range(30)])
    project.append("words", LATE)
    project.append("names", NAMES)
    project.went_well()
    project.shape = replace(project.shape, partitions=5)
    content = (project.path / "words.csv").read_text()
    assert project.seeded(content).outcome == "unchanged"
    project.went_well()
    # Its records have no time: those of different keys may change places, and no window can tell.
    assert by_key(project.result()) == by_key(project.fresh())
    before = project.state("seed").number
    assert project.seeded(content).outcome == "unchanged"
    assert project.state("seed").number == before + 1  # its hash is noted: it has the partition count in it
    assert project.seeded(content).outcome == "unchanged"
    assert project.state("seed").number == before + 1
    assert project.seeded("k,x\nz,1\n", full_refresh=True).appended == 7 + 25


def test_driver_of_before_ends_when_it_sees_the_switch_and_commits_nothing_more(project):
    stop, story = threading.Event(), Story()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(
            project.run, select=("sums",), stop=stop, until_caught_up=False, observer=story, max_records=100
        )
        wait_until(lambda: sum(each.records for each in story.of(EpochCommitted)) == len(LATE) or running.done())
        words = replace(project.shape, partitions=8).words
        repartition(project.log, SEEDS, [words])
        before = project.state("sums").number
        (result,) = running.result().applications
    assert result.status == "failed"
    assert "the records of words were put elsewhere by another run" in str(result.error)
    assert "into 8 partitions; this run of test-sums stops" in str(result.error)
    assert project.state("sums").number == before
    readers = Readers(project.log, declared_readers(topologies(project)))
    readers.refresh(project.state("seed"))
    assert set(readers.positions("words", 0, 0).values()) == {0}  # nothing of it may go before it was read again
    project.shape = replace(project.shape, partitions=8)
    project.went_well()
    assert project.result() == project.fresh()


def test_letters_that_name_places_of_before_are_put_back_once_the_result_has_followed(project):
    letters = dead_letter_topic("sums_words_dead_letter", project.shape.words, "test-sums")
    project.shape = replace(project.shape, partitions=8)
    repartition(project.log, SEEDS, [project.shape.words, project.shape.names])
    with pytest.raises(LettersOutdatedError, match="were repartitioned after the letters"):
        retry(project.log, SEEDS, letters, [], project.shape.words)
    project.went_well()
    assert retry(project.log, SEEDS, letters, [], project.shape.words).records == 0


def test_reader_that_is_not_selected_is_asked_for_before_anything_is_touched(project):
    number = project.state("seed").number
    project.shape = replace(project.shape, partitions=8)
    said = [what for kind, _, what in changes(project, "sums")["test-sums"] if kind == "topology.still_read"]
    assert [each.partition(",")[0] for each in said] == [
        "topology late has read sums",
        "topology joins has read words",
        "topology windows has read words",
    ]
    results = project.run(select=("sums",))
    assert [each.status for each in results.applications] == ["failed"]
    assert "topology windows has read words" in str(results.applications[0].error)
    assert "headwater run --select 'words+'" in str(results.applications[0].error)
    assert project.state("seed").number == number


def test_paused_reader_and_removed_records_refuse_it_for_all_readers(project):
    project.append("names", [("k1", "late", 10_000)])
    project.shape = replace(project.shape, partitions=8)
    number = project.state("seed").number
    project.log.pause("test-joins")
    found = refusals(project)
    assert "topology.paused" in found["test-joins"]
    assert "topology.paused" in found["test-sums"]
    project.run()
    assert project.state("seed").number == number
    project.log.resume("test-joins")
    clean_completely(project.log, SEEDS, {"names": Policy("delete", 10)}, delay_ms=0)
    found = refusals(project)
    assert "topic.incomplete" in found["test-joins"]
    assert "topic.together" in found["test-sums"]
    project.run()
    assert {each.partitions for each in project.state("seed").topics.values()} == {4}


def test_run_that_is_stopped_before_the_records_are_put_elsewhere_begins_nothing(project):
    number = project.state("seed").number
    project.shape = replace(project.shape, partitions=8)
    stop, story = threading.Event(), Story()
    stop.set()
    results = project.run(stop=stop, observer=story)
    assert {each.status for each in results.applications} == {"not_started"}
    assert (story.of(RecomputationBegun), project.log.places()) == ([], Places())
    assert project.state("seed").number == number
    project.went_well()
    assert project.result() == project.fresh()


def _delete_without_the_new_key(project: FedProject) -> None:
    project.append("names", [("k1", None, 900)])
    project.shape = replace(project.shape, partitions=8, names_key="name string")


def _damage(project: FedProject) -> None:
    for path in project.state("seed").paths():
        if "/names/" in path:
            file = project.path / "log" / path
            file.write_bytes(bytes(file.stat().st_size))
    project.shape = replace(project.shape, partitions=8)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_delete_without_the_new_key, "tombstones among them have the former key only"),
        (_damage, "cannot be read"),
    ],
)
def test_topic_that_cannot_be_moved_refuses_its_readers_alone(tmp_path, spoil, why):
    project = FedProject(tmp_path / "project")
    some = ("sums", "copies", "late")
    project.append("words", FIRST)
    project.append("names", [each for each in NAMES if each[1] is not None])
    project.went_well(select=some)
    spoil(project)
    before = project.state("copies").number
    story = Story()
    results = project.run(select=some, observer=story)
    assert [each.status for each in results.applications] == ["caught_up", "caught_up", "failed"]
    assert why in str(results.applications[2].error)
    assert [each.topic for each in story.of(TopicRepartitioned)] == ["words"]
    assert {name: topic.partitions for name, topic in project.state("seed").topics.items()} == {"words": 8, "names": 4}
    assert project.state("copies").number == before
    del project.fed[1:]
    project.shape = replace(project.shape, names_key="")
    found, fresh = project.result(), project.fresh(("sums", "late"))
    assert [found[each] for each in ("sums", "late", "totals")] == [fresh[each] for each in ("sums", "late", "totals")]


def test_other_key_puts_records_where_it_belongs(tmp_path):
    project = FedProject(tmp_path / "project", Shape(value="x bigint, g string"))
    some = ("sums", "windows", "late")
    project.append_flat([{"k": f"k{n % 5}", "g": f"g{n % 3}", "x": n, "time": 100 + n} for n in range(40)])
    project.went_well(select=some)
    project.append_flat([{"k": f"k{n % 7}", "g": None, "x": n, "time": 50 + n} for n in range(9)])
    project.shape = Shape(partitions=3, key="g string", value="x bigint")
    said = [what for _, _, what in changes(project, *some)["test-sums"] if "records" in what]
    assert said == ["its 49 records are put into 3 partitions instead of 4, by the key g string instead of k string"]
    project.went_well(select=some)
    assert project.result() == project.fresh(some)
    project.shape = Shape(value="x bigint, g string")  # and back: the key of before is in the value, undeclared
    project.went_well(select=some)
    assert project.result() == project.fresh(some)
