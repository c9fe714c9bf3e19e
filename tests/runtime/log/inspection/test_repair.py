"""What is lost is given up in a commit, and applications go on with all else."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.runtime.ir.topology import PluginRef
from headwater.runtime.log.commit.descriptions import ExternalTopic
from headwater.runtime.log.commit.external_records import AppendRecord
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.errors import CommitDamagedError, SegmentsChangedError
from headwater.runtime.log.inspection.repair import NotLostError, Repair, plan_repair, repair
from headwater.runtime.log.inspection.verification import Verification
from headwater.runtime.log.segments.segment import Segment
from headwater.runtime.log.state import LogState
from headwater.tests.runtime.local.local_application import LocalApplication
from headwater.tests.runtime.local.summing import PARTITIONS, RECORDS, SUM_OF_ONE, WORDS, fed, last_sums, summed

Application = Callable[..., LocalApplication]


def segments(app: LocalApplication, application: str, topic: str, partition: int) -> list[Segment]:
    found = LogState.load(app.log.commits(application)).segments()
    return [each for each in found if each.topic == topic and each.partition == partition]


def lose(app: LocalApplication, segment: Segment) -> None:
    (app.path / "log" / segment.path).unlink()


def repaired(app: LocalApplication) -> tuple[Repair, ...]:
    planned = plan_repair(app.log)
    for each in planned:
        repair(app.log, each)
    assert plan_repair(app.log) == ()
    assert [damage for each in Verification(app.log).run() for damage in each.damages] == []
    return planned


def test_records_that_were_not_consumed_are_passed_over_and_all_others_count(application: Application) -> None:
    app = fed(application(summed()))
    app.append(WORDS, [(("k1",), (1000,), 99)], 1)
    (first, _) = segments(app, "test-seed", "words", 1)
    lose(app, first)
    assert app.attempt().status == "failed"

    (planned,) = repaired(app)

    assert (planned.application, planned.dropped) == ("test-seed", RECORDS)
    app.run()
    assert last_sums(app) == {"k0": SUM_OF_ONE, "k1": (1, 1000), "k2": SUM_OF_ONE, "k3": SUM_OF_ONE}
    app.append(WORDS, [(("k1",), (1,), 100)], 1)
    app.run()
    assert last_sums(app)["k1"] == (2, 1001)


def test_records_that_were_consumed_are_not_missed(application: Application) -> None:
    app = fed(application(summed()))
    app.run()
    for partition in range(PARTITIONS):
        lose(app, *segments(app, "test-seed", "words", partition))
    assert sum(each.dropped for each in repaired(app)) == PARTITIONS * RECORDS
    app.append(WORDS, [(("k1",), (1000,), 99)], 1)
    app.run()
    assert last_sums(app)["k1"] == (RECORDS + 1, SUM_OF_ONE[1] + 1000)


def test_store_keeps_lost_changes_that_it_has_applied_and_a_restored_copy_lacks_them(application: Application) -> None:
    app = fed(application(summed()))
    app.run(max_records=12)
    summed_before = sum(each.rows for each in segments(app, "test-app", "sums", 1)[:-1])
    changes = segments(app, "test-app", "test-app-totals-changelog", 1)
    lose(app, changes[-1])

    (planned,) = repaired(app)

    assert planned.segments[0].lost[0].startswith("changes of store totals, partition 1: a copy that is restored")
    app.append(WORDS, [(("k1",), (1000,), 99)], 1)
    shutil.copytree(app.path, app.path.with_name("without-stores"))
    app.run()
    assert last_sums(app)["k1"] == (RECORDS + 1, SUM_OF_ONE[1] + 1000)
    other = LocalApplication(app.path.with_name("without-stores"), app.parts)
    shutil.rmtree(other.path / "state")
    other.run()
    assert last_sums(other)["k1"] == (summed_before + 1, sum(range(summed_before)) + 1000)


def test_only_the_batches_that_are_damaged_are_dropped(tmp_path: Path, records) -> None:
    log = EmbeddedLog(tmp_path / "log")
    written = log.write("p-seed", "t", "s-1", records(3 * 16_384), 0, 0)
    LogState.load(log.commits("p-seed")).commit(AppendRecord(0, written))
    path = log.root / written[0].path
    data = bytearray(path.read_bytes())
    data[written[0].batches[1].start + 500] ^= 1
    path.write_bytes(data)

    (planned,) = plan_repair(log)
    repair(log, planned)

    assert [(each.kept, each.dropped) for each in planned.segments] == [(2 * 16_384, 16_384)]
    state = LogState.load(log.commits("p-seed"))
    (within,) = state.ranges("t", 0)
    assert (within.start_offset, within.end_offset, within.records) == (0, 3 * 16_384, 2 * 16_384)
    offsets = [offset for found in log.read(within) for offset in found.offsets.tolist()]
    assert offsets == [*range(16_384), *range(2 * 16_384, 3 * 16_384)]
    assert path.exists()  # until a run finds that no commit lists it


def test_damaged_copy_of_a_store_is_listed_no_more(application: Application) -> None:
    app = fed(application(summed()))
    app.topology = replace(app.topology, restore=PluginRef("snapshot", {"every_epochs": 2}))
    app.run(max_records=12)
    copy, *others = LogState.load(app.log.commits("test-app")).store_snapshots.listed
    (app.path / "log" / copy.path).write_bytes(b"x")

    (planned,) = repaired(app)

    assert (planned.segments, planned.copies) == ((), (copy,))
    assert set(LogState.load(app.log.commits("test-app")).store_snapshots.listed) == set(others)


def test_file_that_the_system_refuses_is_not_given_up(application: Application) -> None:
    app = fed(application(summed()))
    (segment,) = segments(app, "test-seed", "words", 0)
    lose(app, segment)
    (app.path / "log" / segment.path).mkdir()
    with pytest.raises(NotLostError, match="words, partition 0, offsets 0 to 29, cannot be read"):
        plan_repair(app.log)


def test_repair_that_is_late_changes_nothing(application: Application) -> None:
    app = fed(application(summed()))
    lose(app, *segments(app, "test-seed", "words", 0))
    (planned,) = plan_repair(app.log)
    repair(app.log, planned)
    with pytest.raises(SegmentsChangedError):
        repair(app.log, replace(planned, segments=(replace(planned.segments[0], segment=_wider(planned)),)))


def _wider(planned: Repair) -> Segment:
    segment = planned.segments[0].segment
    return replace(segment, span=segment.rows + 1, path="segments/test-seed/words/gone.seg")


def test_log_whose_commits_cannot_be_read_is_not_repaired(application: Application) -> None:
    app = fed(application(summed()))
    commit = app.path / "log" / "commits" / "test-seed" / "000000000002.json"
    commit.write_text("{")
    with pytest.raises(CommitDamagedError):
        plan_repair(app.log)


@pytest.mark.parametrize("refreshed", [False, True])
def test_records_that_took_the_place_of_planned_ones_at_the_same_offsets_are_not_given_up(
    tmp_path: Path, records, refreshed: bool
) -> None:
    log = EmbeddedLog(tmp_path / "log")
    topic = ExternalTopic(name="t", partitions=1, key="", value="")
    state = LogState.load(log.commits("p-seed"))
    old = log.write("p-seed", "t", "old", records(3), 0, 0)
    state.commit(AppendRecord(0, old, topic=topic))
    (log.root / old[0].path).unlink()
    planned = plan_repair(log)
    assert [each.dropped for each in planned] == [3]

    if refreshed:
        log.drop("p-seed")
        state.reload()
    new = log.write("p-seed", "t", "new", records(3), 0, 0)
    state.commit(AppendRecord(1, new, topic=topic, replace=True))
    with pytest.raises(SegmentsChangedError, match="the records of t, partition 0, with offsets 0 to 2 were replaced"):
        repair(log, planned[0])

    state.refresh()
    assert [(each.path, each.rows) for each in state.segments()] == [(new[0].path, 3)]
