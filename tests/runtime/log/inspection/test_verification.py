"""Whatever is damaged in a log is found, and named; what is whole is not taken for damaged."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from headwater.runtime.driver.events import EpochCommitted, Event
from headwater.runtime.ir.topology import PluginRef
from headwater.runtime.log.commit.external_records import AppendRecord
from headwater.runtime.log.commit.records import RewriteRecord
from headwater.runtime.log.embedded.commits import DirectoryCommitStore
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.inspection.contents import walk
from headwater.runtime.log.inspection.verification import Damage, Verification, VerifiedApplication
from headwater.runtime.log.ranges import Rewritten
from headwater.runtime.log.state import LogState
from headwater.tests.runtime.local.local_application import LocalApplication
from headwater.tests.runtime.local.summing import PARTITIONS, RECORDS, WORDS, fed, summed
from headwater.tests.runtime.log.inspection.damaged import cut, flip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> LocalApplication:
    """It has run in ten epochs, and has snapshots of its stores."""
    app = fed(LocalApplication(tmp_path_factory.mktemp("made"), [summed()]))
    app.topology = replace(app.topology, restore=PluginRef("snapshot", {"every_epochs": 2}))
    app.run(max_records=12)
    return app


@pytest.fixture
def app(made: LocalApplication, tmp_path: Path) -> LocalApplication:
    """The same, in a folder that may be damaged."""
    shutil.copytree(made.path, tmp_path, dirs_exist_ok=True)
    app = LocalApplication(tmp_path, made.parts)
    app.topology = made.topology
    return app


def verified(app: LocalApplication) -> dict[str, VerifiedApplication]:
    return {each.application: each for each in Verification(app.log).run()}


def damages(app: LocalApplication) -> list[Damage]:
    return [damage for each in verified(app).values() for damage in each.damages]


def files(app: LocalApplication, pattern: str) -> list[Path]:
    return sorted((app.path / "log").rglob(pattern))


def test_whole_log_has_no_damage_and_all_of_it_was_read(made):
    progress = []
    found = Verification(made.log, progress=lambda done, of: progress.append((done, of))).run()

    own, seeds = found
    assert (own.damages, own.unlisted, seeds.damages, seeds.unlisted) == ((), (), (), ())
    assert seeds.records == PARTITIONS * RECORDS
    assert own.records > PARTITIONS * RECORDS
    assert own.commits == len(files(made, "commits/test-app/*.json"))
    assert own.store_copies == len(files(made, "*.snap")) > 0
    assert progress[-1] == (own.segments + seeds.segments,) * 2


@pytest.mark.parametrize("damage", [flip, cut, Path.unlink])
@pytest.mark.parametrize("kind", ["commits/*/*.json", "segments/*/*/*.seg", "snapshots/*/*/*.snap"])
def test_damage_of_any_file_is_found_with_its_name(app, kind, damage):
    paths = files(app, kind)
    last = {path.parent: path for path in paths if path.suffix == ".json"}.values()
    for path in paths:
        content = path.read_bytes()
        damage(path)
        name = path.relative_to(app.path / "log").as_posix()
        if path.suffix == ".json":
            name = f"commit {int(path.stem)} of {path.parent.name} is "
        found = verified(app)
        if damage is Path.unlink and path in last:
            # Of a log that ends earlier nothing tells that there was more, but for files that nothing lists.
            assert found[path.parent.name].unlisted
        else:
            told = [each.what for one in found.values() for each in one.damages]
            assert [what for what in told if name in what], (path, told)
        path.write_bytes(content)
    assert damages(app) == []


def test_records_that_cannot_be_read_are_told_with_their_places_and_what_is_lost_with_them(app):
    seeds = LogState.load(app.log.commits("test-seed"))
    (words,) = (each for each in seeds.segments() if each.partition == 2)
    flip(app.path / "log" / words.path)
    own = LogState.load(app.log.commits("test-app"))
    changes = next(each for each in own.segments() if each.topic.endswith("-changelog") and each.partition == 1)
    (app.path / "log" / changes.path).unlink()

    lost, read = damages(app)

    assert (read.path, read.records) == (words.path, RECORDS)
    assert str(read.place) == f"words, partition 2, offsets 0 to {RECORDS - 1}"
    assert (read.what, read.lost) == (f"batch 0 of segment {words.path} is damaged", "test-app has consumed them")
    go_on = "or drop these records: headwater log repair --drop-unreadable"
    assert read.way_out == f"put the file back from a copy of the log; {go_on}"  # nothing has a seed here
    again = "or rebuild them: headwater build --full-refresh --select 'app+'"
    assert lost.way_out == f"put the file back from a copy of the log; {again}; {go_on}"
    assert (lost.path, lost.records) == (changes.path, 1)
    assert str(lost.place) == "test-app-totals-changelog, partition 1, offset 0"
    assert lost.lost.startswith("changes of store totals, partition 1: a copy that is restored from the changelog")
    assert "one that is restored from the snapshot at position" in lost.lost


def test_batches_behind_a_damaged_one_are_read(tmp_path, records):
    log = EmbeddedLog(tmp_path / "log")
    written = log.write("p-seed", "t", "s-1", records(3 * 16_384), 0, 0)
    LogState.load(log.commits("p-seed")).commit(AppendRecord(0, written))
    path = log.root / written[0].path
    data = bytearray(path.read_bytes())
    for number in (0, 2):
        data[written[0].batches[number].start + 500] ^= 1
    path.write_bytes(data)

    (found,) = Verification(log).run()

    assert found.records == 16_384
    assert [(each.place.start, each.place.end) for each in found.damages] == [(0, 16_384), (32_768, 49_152)]
    assert {each.lost for each in found.damages} == {"no topology reads them"}


def test_reader_that_has_not_consumed_records_is_named(tmp_path):
    app = fed(LocalApplication(tmp_path, [summed()]))
    app.run()
    app.append(WORDS, [(("k0",), (1,), 99)], 0)
    files(app, "segments/test-seed/*/*.seg")[-1].unlink()
    (damage,) = damages(app)
    assert (damage.records, damage.lost) == (1, "test-app has not consumed them")


def test_reader_of_the_project_that_has_not_run_or_cannot_be_read_is_named(tmp_path):
    app = fed(LocalApplication(tmp_path, [summed()]))
    app.run()
    for commit in files(app, "commits/test-app/*.json"):
        commit.write_text("{")
    files(app, "segments/test-seed/*/*.seg")[0].unlink()
    readers = {"words": ["test-app", "test-new"], "sums": ["test-other"]}
    found = Verification(app.log, readers=readers).run()
    (damage, *_) = next(each for each in found if each.application == "test-seed").damages
    assert damage.lost == (
        "whether test-app has consumed them is not known: its commits cannot be read; test-new has not consumed them"
    )


def test_file_that_the_system_refuses_is_told_as_such(app):
    path = files(app, "segments/test-seed/*/*.seg")[0]
    path.unlink()
    path.mkdir()
    (damage,) = damages(app)
    assert damage.what == f"{path}: Is a directory"
    assert damage.way_out.startswith("allow this user to read the file")


def test_folded_log_is_whole_and_damage_of_its_snapshots_is_found(tmp_path, records):
    log = EmbeddedLog(tmp_path / "log")
    state = LogState.load(log.commits("p-seed"))
    for number in range(350):
        state.commit(AppendRecord(0, log.write("p-seed", "t", f"s-{number}", records(2), number % 3, 0)))
    first = log.commits("p-seed").first()
    assert first > 1

    (found,) = Verification(log).run()
    assert (found.damages, found.records, found.commits) == ((), 700, 350 - first + 1)

    snapshots = sorted((log.root / "commits").rglob("*.snapshot"))
    for path in snapshots:
        content = path.read_bytes()
        flip(path)
        (damage,) = Verification(log).run()[0].damages
        assert damage.what == f"snapshot of commit {int(path.stem)} of p-seed is damaged: {path}"
        assert damage.lost.startswith("nothing")
        path.write_bytes(content)
    for path in snapshots:
        path.unlink()
    (damage,) = Verification(log).run()[0].damages
    assert "before" in damage.what
    assert damage.lost == "all that the application has committed"


def test_missing_checksum_of_folded_commits_endangers_stores_that_were_last_used_with_them(tmp_path, records):
    log = EmbeddedLog(tmp_path / "log")
    state = LogState.load(log.commits("p-seed"))
    for number in range(250):
        state.commit(AppendRecord(0, log.write("p-seed", "t", f"s-{number}", records(1), 0, 0)))
    for path in (log.root / "commits").rglob("*.checksums"):
        path.unlink()
    (damage,) = Verification(log).run()[0].damages
    assert damage.what.endswith("is folded, and its checksum is missing")
    assert damage.lost.startswith("no record; but a store that was last brought forward with a commit of that time")


@pytest.mark.parametrize(("commits", "gone"), [(2, 1), (150, 1), (250, 100)])
def test_first_commit_that_was_removed_is_missing_and_not_folded(tmp_path, records, commits, gone):
    log = EmbeddedLog(tmp_path / "log")
    state = LogState.load(log.commits("p-seed"))
    for number in range(commits):
        state.commit(AppendRecord(0, log.write("p-seed", "t", f"s-{number}", records(1), 0, 0)))
    path = log.root / "commits" / "p-seed" / f"{gone:012}.json"
    path.unlink()
    (damage,) = Verification(log).run()[0].damages
    assert damage.what == f"commit {gone} of p-seed is missing, though later ones exist: {path}"


@pytest.mark.parametrize("at", [1, 50, 120])
def test_commits_that_are_folded_while_they_are_walked_are_no_damage(tmp_path, records, at):
    log = EmbeddedLog(tmp_path / "log")
    state = LogState.load(log.commits("p-seed"))

    def commit_until(done):
        while not done():
            name = f"s-{state.number}"
            state.commit(AppendRecord(0, log.write("p-seed", "t", name, records(1), 0, 0)))

    class FoldedMeanwhile(DirectoryCommitStore):
        def read(self, number):
            if number == at:
                commit_until(lambda: log.commits("p-seed").first() > at)
            return super().read(number)

    commit_until(lambda: state.number == 150)
    found = walk(FoldedMeanwhile("p-seed", log.root / "commits" / "p-seed"))
    assert found.broken == ()
    assert found.state is not None
    assert found.state.number == state.number


def test_snapshot_that_says_something_else_than_the_commits_is_found(tmp_path, records):
    logs = [EmbeddedLog(tmp_path / name) for name in ("a", "b")]
    for rows, log in enumerate(logs, 1):
        state = LogState.load(log.commits("p-seed"))
        for number in range(110):
            state.commit(AppendRecord(0, log.write("p-seed", "t", f"s-{number}", records(rows), 0, 0)))
    ours, others = (next((log.root / "commits").rglob("*.snapshot")) for log in logs)
    shutil.copy(others, ours)
    (damage,) = Verification(logs[0]).run()[0].damages
    assert damage.what.startswith(f"snapshot of commit {int(ours.stem)} of p-seed is of another commit than the one")


def test_commits_that_are_gone_are_damage(tmp_path, records):
    log = EmbeddedLog(tmp_path / "log")
    LogState.load(log.commits("p-seed")).commit(AppendRecord(0, log.write("p-seed", "t", "s-1", records(1), 0, 0)))
    shutil.rmtree(log.root / "commits" / "p-seed")
    (found,) = Verification(log, ["p-seed", "p-never"]).run()
    assert found.application == "p-seed"
    assert "the commits of p-seed are missing" in found.damages[0].what


class Verifying:
    """An observer that verifies the log after each epoch."""

    def __init__(self, app: LocalApplication) -> None:
        self._app = app
        self.damages: list[Damage] = []
        self.times = 0

    def on(self, event: Event) -> None:
        if isinstance(event, EpochCommitted):
            self.times += 1
            self.damages += damages(self._app)


def test_log_of_a_running_application_is_whole_at_any_time(tmp_path):
    app = fed(LocalApplication(tmp_path, [summed()]))
    verifying = Verifying(app)
    app.attempt(app.settings(max_records=20), observer=verifying)
    assert verifying.times > 1
    assert verifying.damages == []


def test_file_that_is_replaced_while_the_log_is_verified_is_no_damage(tmp_path, records):
    log = EmbeddedLog(tmp_path / "log")
    state = LogState.load(log.commits("p-seed"))
    for number in range(3):
        state.commit(AppendRecord(0, log.write("p-seed", "t", f"s-{number}", records(1), 0, 0)))
    first, second, _ = state.segments()

    def merged(done: int, of: int) -> None:
        if done == 1:
            both = pa.concat_tables(
                pa.Table.from_batches([found.records for found in log.read(each.range())]) for each in (first, second)
            )
            part = Rewritten(0, 0, 0, 2, 0, 2, both, np.arange(2), np.arange(2))
            written = log.write_rewritten("p-seed", "t", "g0-m-1", [part])
            LogState.load(log.commits("p-seed")).commit(RewriteRecord(0, 0, written))
            log.remove(first.path)
            log.remove(second.path)

    (found,) = Verification(log, progress=merged).run()

    assert (found.damages, found.unlisted) == ((), ())
    assert found.records == 1 + 1 + 2  # what was read before, the last, and what has taken the place of both
