"""A copy of a log that was made while an application ran on it is a whole log, and the application goes on from it."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.runtime.driver import stopping as purging
from headwater.runtime.driver.events import EpochCommitted, Event
from headwater.runtime.ir.topology import PluginRef
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.errors import CommitDamagedError, CommitsMissingError
from headwater.runtime.log.inspection import copying
from headwater.runtime.log.inspection.copying import CopyTargetError, UncopiableLogError, copy_log
from headwater.runtime.log.inspection.verification import Verification
from headwater.runtime.log.object_store.log import ObjectStoreLog
from headwater.runtime.log.state import LogState
from headwater.runtime.log.state_parts import folded as folding
from headwater.tests.runtime.local.local_application import LocalApplication
from headwater.tests.runtime.local.summing import PARTITIONS, SUMS, WORDS, fed, summed_by_text


def damages(log: EmbeddedLog) -> list[str]:
    return [damage.what for each in Verification(log).run() for damage in each.damages]


def unlisted(log: EmbeddedLog) -> list[str]:
    return [file.path for each in Verification(log).run() for file in each.unlisted]


class Copying:
    """An observer under which another thread copies the log all the time, while each commit brings new input."""

    def __init__(self, app: LocalApplication, folder: Path) -> None:
        self._app = app
        self._folder = folder
        self.copies: list[Path] = []
        self._begun = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._copy)
        self._left = 30

    def on(self, event: Event) -> None:
        if isinstance(event, EpochCommitted):
            if not self._begun.is_set():
                self._begun.set()
                self._thread.start()
            if self._left:
                self._left -= 1
                number = self._left
                self._app.append(WORDS, [((f"k{number % PARTITIONS}",), (1,), 99)], number % PARTITIONS)

    def _copy(self) -> None:
        while not self._ended.is_set() or not self.copies:
            target = self._folder / str(len(self.copies)) / "log"
            copy_log(self._app.log, target)
            self.copies.append(target)

    def join(self) -> None:
        self._ended.set()
        self._thread.join()


def last_counts(app: LocalApplication) -> dict[str, int]:
    return {row["key.k"]: row["value.n"] for row in app.read(SUMS)}


def fed_counts(app: LocalApplication) -> dict[str, int]:
    counts: dict[str, int] = {}
    for row in app.read(WORDS):
        counts[row["key.k"]] = counts.get(row["key.k"], 0) + 1
    return counts


def test_copies_of_a_running_log_are_whole_and_the_application_goes_on_from_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purging, "PURGE_SECONDS", 0.0)
    monkeypatch.setattr(folding, "SNAPSHOT_EVERY", 4)
    app = fed(LocalApplication(tmp_path / "app", summed_by_text()))
    app.topology = replace(app.topology, restore=PluginRef("snapshot", {"every_epochs": 2}))
    copier = Copying(app, tmp_path / "copies")

    assert app.attempt(app.settings(max_records=3), observer=copier).error is None
    copier.join()

    assert damages(app.log) == []
    chosen = {copier.copies[0], copier.copies[len(copier.copies) // 2], copier.copies[-1]}
    for copy in chosen:
        assert damages(EmbeddedLog(copy)) == []
        assert unlisted(EmbeddedLog(copy)) == []
        other = LocalApplication(copy.parent, app.parts)
        other.topology = app.topology
        other.run(max_records=20)
        assert last_counts(other) == fed_counts(other)
    assert EmbeddedLog(copier.copies[0]).identity() == app.log.identity()


@pytest.fixture
def app(application: Callable[..., LocalApplication]) -> LocalApplication:
    app = fed(application(*summed_by_text()))
    app.run()
    return app


def test_copy_is_brought_up_to_date_with_what_is_new(app: LocalApplication, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    first = copy_log(app.log, target)
    assert (first.commits["test-seed"], first.removed, first.missing) == (4, 0, ())
    assert copy_log(app.log, target).files == 0
    app.append(WORDS, [(("k1",), (1,), 99)], 1)
    gone = target / "segments" / "test-seed" / "words" / "s-of-before.seg"
    gone.write_bytes(b"x")
    second = copy_log(app.log, target)
    assert (second.commits["test-seed"], second.files, second.removed) == (5, 1, 1)
    assert damages(EmbeddedLog(target)) == []


def test_copy_of_an_application_has_not_consumed_what_the_copy_of_its_input_lacks(
    app: LocalApplication, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[str] = []
    application = copying._Copy._application

    def with_a_run_behind(copy: copying._Copy, name: str) -> LogState:
        state = application(copy, name)
        copied.append(name)
        if len(copied) == 1:
            app.append(WORDS, [(("k1",), (1,), 99)], 1)
            app.run()
        return state

    monkeypatch.setattr(copying._Copy, "_application", with_a_run_behind)
    copy_log(app.log, tmp_path / "copied" / "log")

    other = LocalApplication(tmp_path / "copied", app.parts)
    other.run()
    assert last_counts(other) == fed_counts(other) == last_counts(app)


def test_copy_that_was_broken_off_is_taken_up_again(app: LocalApplication, tmp_path: Path) -> None:
    class StoppedError(Exception):
        pass

    def stop(done: int, of: int) -> None:
        if done == 3:
            raise StoppedError

    target = tmp_path / "copy"
    with pytest.raises(StoppedError):
        copy_log(app.log, target, stop)
    assert EmbeddedLog(target).applications() == []  # nothing that could be taken for a log
    copy_log(app.log, target)
    app.append(WORDS, [(("k1",), (1,), 99)], 1)
    with pytest.raises(StoppedError):
        copy_log(app.log, target, stop)
    assert LogState.load(EmbeddedLog(target).commits("test-seed")).number == 4  # still the copy before
    assert damages(EmbeddedLog(target)) == []
    copy_log(app.log, target)
    assert LogState.load(EmbeddedLog(target).commits("test-seed")).number == 5


def test_file_that_the_log_lacks_is_told_and_all_else_is_copied(app: LocalApplication, tmp_path: Path) -> None:
    (segment,) = (each for each in LogState.load(app.log.commits("test-seed")).segments() if each.partition == 2)
    (app.path / "log" / segment.path).unlink()
    assert copy_log(app.log, tmp_path / "copy").missing == (segment.path,)
    assert len(damages(EmbeddedLog(tmp_path / "copy"))) == 1


def test_copy_does_not_go_where_something_else_is(app: LocalApplication, tmp_path: Path) -> None:
    root = app.path / "log"
    other = EmbeddedLog(tmp_path / "other")
    other.check()
    for target, cause in (
        (root, "is the log"),
        (root / "copy", "inside of it"),
        (root.parent, "around it"),
        (other.root, "holds something else"),
    ):
        with pytest.raises(CopyTargetError, match=cause):
            copy_log(app.log, target)
    with pytest.raises(CopyTargetError, match="no log yet"):
        copy_log(EmbeddedLog(tmp_path / "none"), tmp_path / "copy")


def test_copy_that_lacks_what_is_in_the_folder_is_refused_and_changes_nothing(
    app: LocalApplication, tmp_path: Path
) -> None:
    copied = tmp_path / "copied" / "log"
    copy_log(app.log, copied)
    app.append(WORDS, [(("k1",), (1,), 99)], 1)
    app.run()
    before = {name: LogState.load(app.log.commits(name)).number for name in app.log.applications()}
    with pytest.raises(CopyTargetError, match="test-app has 6 there, and 3 in the log"):
        copy_log(EmbeddedLog(copied), app.log.root)
    assert {name: LogState.load(app.log.commits(name)).number for name in app.log.applications()} == before

    other = LocalApplication(tmp_path / "copied", app.parts)
    other.append(WORDS, [(("k2",), (1,), 99)], 2)
    with pytest.raises(CopyTargetError, match=r"test-seed has 5 there, and 5 in the log, which are others"):
        copy_log(app.log, copied)
    assert damages(other.log) == damages(app.log) == []


def test_copy_has_no_applications_and_pauses_that_the_log_has_no_more(app: LocalApplication, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    (dropped,) = set(app.log.applications()) - {"test-seed"}
    app.log.pause("test-seed")
    copy_log(app.log, target)
    copy = EmbeddedLog(target)
    assert copy.paused_since("test-seed") is not None
    app.log.resume("test-seed")
    app.log.drop(dropped)
    assert copy_log(app.log, target).dropped == (dropped,)
    assert copy.paused_since("test-seed") is None
    assert [path.name for path in (target / "applications").iterdir()] == copy.applications() == ["test-seed"]
    assert damages(copy) == unlisted(copy) == []


def test_copy_that_was_broken_off_before_it_had_the_id_is_taken_up_again(app: LocalApplication, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    copy_log(app.log, target)
    (target / "log.json").unlink()
    copy_log(app.log, target)
    assert EmbeddedLog(target).identity() == app.log.identity()


def test_damaged_file_is_told_at_each_copy_until_it_is_whole_again(app: LocalApplication, tmp_path: Path) -> None:
    (segment,) = (each for each in LogState.load(app.log.commits("test-seed")).segments() if each.partition == 2)
    path, target = app.log.root / segment.path, tmp_path / "copy"
    whole = path.read_bytes()
    at = segment.batches[0].start + 5
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    assert copy_log(app.log, target).damaged == copy_log(app.log, target).damaged == (segment.path,)
    path.write_bytes(whole)
    assert copy_log(app.log, target).damaged == ()
    assert damages(EmbeddedLog(target)) == []


def test_damaged_commit_is_told_with_the_file_of_the_log_and_the_copy_stays(
    app: LocalApplication, tmp_path: Path
) -> None:
    target = tmp_path / "copy"
    copy_log(app.log, target)
    place = Path(app.log.commits("test-seed").path(4))
    place.write_bytes(b"{")
    with pytest.raises(CommitDamagedError) as raised:
        copy_log(app.log, target)
    assert raised.value.path == str(place)
    assert damages(EmbeddedLog(target)) == []


def test_log_that_has_lost_commits_is_not_copied_over_the_copy_that_has_them(
    app: LocalApplication, tmp_path: Path
) -> None:
    copy_log(app.log, tmp_path / "copy")
    shutil.rmtree(app.log.root / "commits" / "test-seed")
    with pytest.raises(CommitsMissingError):
        copy_log(app.log, tmp_path / "copy")
    assert damages(EmbeddedLog(tmp_path / "copy")) == []


def test_log_in_an_object_store_is_refused_with_what_can_be_done(tmp_path: Path) -> None:
    with pytest.raises(UncopiableLogError, match="only a log of type embedded") as raised:
        copy_log(ObjectStoreLog(f"file://{tmp_path}/bucket"), tmp_path / "copy")
    assert "headwater pause" in (raised.value.hint or "")
