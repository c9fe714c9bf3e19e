"""Names of applications and their places: what one change does, and many at once."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.runtime.ir.topology import Topic
from headwater.runtime.log import state as state_module
from headwater.runtime.log.commit.external_records import AppendRecord
from headwater.runtime.log.declared_topics import changed_writers
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.errors import CommitDamagedError, CommitsMissingError
from headwater.runtime.log.inspection.contents import contents
from headwater.runtime.log.inspection.copying import copy_log
from headwater.runtime.log.inspection.verification import Verification
from headwater.runtime.log.log import CommitStore, Log
from headwater.runtime.log.object_store.log import ObjectStoreLog
from headwater.runtime.log.placed_log import PLACES, PlacedLog, PlacesChangedError
from headwater.runtime.log.places import Places
from headwater.runtime.log.state import LogState


@pytest.fixture(params=[EmbeddedLog, lambda path: ObjectStoreLog(path.as_uri())], ids=["embedded", "object_store"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Log]:
    return lambda: request.param(tmp_path / "log")


def begin(log: Log, *applications: str) -> None:
    for each in applications:
        LogState.load(log.commits(each)).commit(AppendRecord(0, ()))


def test_name_that_nobody_moved_is_its_own_place():
    assert (Places().of("p-a"), Places().name_of("p-a")) == ("p-a", "p-a")


def test_renamed_application_has_its_place_and_its_old_name_another():
    places = Places().moved({"p-b": "p-a"}, 1)
    assert (places.of("p-b"), places.name_of("p-a"), places.of("p-a")) == ("p-a", "p-b", "p-a~2")


def test_name_that_comes_back_has_its_own_place_again():
    places = Places().moved({"p-b": "p-a"}, 1).moved({"p-a": "p-b"}, 2)
    assert (places.of("p-a"), places.of("p-b"), places.names) == ("p-a", "p-b", {})


def test_two_applications_that_change_places_do_so_at_once():
    places = Places().moved({"p-b": "p-a", "p-a": "p-b"}, 1)
    assert (places.of("p-a"), places.of("p-b"), places.given_up) == ("p-b", "p-a", {})


def test_switched_application_gives_its_place_up_and_no_name_is_used_twice():
    places, beside = Places().beside("p-a")
    places = places.moved({"p-a": beside}, 7, there=["p-a", beside])
    assert (beside, places.of("p-a"), places.given_up) == ("p-a~2", "p-a~2", {"p-a": 7})
    assert (places.name_of("p-a"), places.name_of("p-a~2")) == (None, "p-a")
    assert places.beside("p-a")[1] == "p-a~3"
    assert places.dropped("p-a").given_up == {}


def test_new_application_of_an_old_name_keeps_its_place_when_the_other_is_gone():
    places = Places().moved({"p-b": "p-a"}, 1).settled("p-a")
    assert places.moved({"p-a~x": "p-b"}, 2).of("p-a") == "p-a~2"


def test_log_without_places_looks_as_before(kept: Callable[[], Log], tmp_path: Path):
    log = PlacedLog(kept(), was={"p-b": ["p-x"]})
    log.check()
    begin(log, "p-a", "p-b")
    log.settle("p-b")
    assert kept().applications() == log.applications() == ["p-a", "p-b"]
    assert not [path for path in tmp_path.rglob("*") if PLACES in path.name]


def test_application_takes_over_what_it_was_for_itself_first_and_then_for_all(kept: Callable[[], Log]):
    begin(kept(), "p-a", "p-c")
    log = PlacedLog(kept(), was={"p-b": ["p-x", "p-a"]})
    log.pause("p-b")
    assert (log.applications(), log.commits("p-b").latest(), log.renamed()) == (["p-b", "p-c"], 1, {"p-b": "p-a"})
    assert PlacedLog(kept()).applications() == ["p-a", "p-c"]
    log.settle("p-b")
    log.settle("p-b")
    other = PlacedLog(kept())
    assert (other.applications(), other.commits("p-b").latest()) == (["p-b", "p-c", "p-seed"], 1)
    assert other.paused_since("p-b") == kept().paused_since("p-a") is not None
    again = PlacedLog(kept(), was={"p-b": ["p-x", "p-a"]})
    again.settle("p-b")
    assert (again.renamed(), kept().commits(PLACES).latest()) == ({}, 1)


def test_new_application_of_the_old_name_begins_from_nothing_elsewhere(kept: Callable[[], Log]):
    begin(kept(), "p-a")
    PlacedLog(kept(), was={"p-b": ["p-a"]}).settle("p-b")
    log = PlacedLog(kept())
    assert log.commits("p-a").latest() == 0
    begin(log, "p-a")
    other = PlacedLog(kept())
    assert (other.place_of("p-a"), other.place_of("p-b")) == ("p-a~2", "p-a")
    assert other.applications() == ["p-a", "p-b", "p-seed"]
    other.drop("p-b")
    assert PlacedLog(kept()).applications() == ["p-a", "p-seed"]
    assert PlacedLog(kept()).commits("p-b").latest() == 0


def test_former_name_of_an_application_that_has_begun_by_itself_says_nothing(kept: Callable[[], Log]):
    begin(kept(), "p-a", "p-b")
    log = PlacedLog(kept(), was={"p-b": ["p-a"]})
    log.settle("p-b")
    assert (log.place_of("p-b"), log.applications()) == ("p-b", ["p-a", "p-b"])


def test_state_has_each_commit_a_full_refresh_and_a_renaming(kept: Callable[[], Log]):
    log, another = PlacedLog(kept()), PlacedLog(kept())
    assert log.state("p-a").number == 0
    begin(another, "p-a")
    state = log.state("p-a")
    assert state.number == 1
    begin(another, "p-a", "p-a")
    assert log.state("p-a") is state
    assert state.number == 3
    another.drop("p-a")
    begin(another, "p-a")
    assert log.state("p-a").number == 1
    begin(another, "p-x", "p-x")
    PlacedLog(kept(), was={"p-b": ["p-x"]}).settle("p-b")
    assert [log.state(name).number for name in ("p-a", "p-b", "p-x")] == [1, 2, 0]


def test_states_that_are_looked_at_by_all_others_are_loaded_once(kept: Callable[[], Log], monkeypatch):
    names = [f"p-{number}" for number in range(9)]
    begin(kept(), *names)
    decoded: list[bytes] = []
    decode = state_module.decode_commit
    monkeypatch.setattr(state_module, "decode_commit", lambda data: decoded.append(data) or decode(data))
    log = PlacedLog(kept())
    for name in names:
        topic = Topic("t", 1, "k string", "v int", writer=name)
        assert list(changed_writers(log, "p", [topic])) == []
    assert len(decoded) == len(names)


def test_place_that_another_run_has_taken_is_refused(kept: Callable[[], Log]):
    begin(kept(), "p-a")
    one = PlacedLog(kept(), was={"p-b": ["p-a"]})
    other = PlacedLog(kept(), was={"p-c": ["p-a"]})
    assert one.commits("p-b").latest() == other.commits("p-c").latest() == 1
    one.settle("p-b")
    with pytest.raises(PlacesChangedError, match="p-c"):
        other.settle("p-c")
    assert PlacedLog(kept()).applications() == ["p-b", "p-seed"]


def test_version_without_places_refuses_what_is_fed_and_the_places_by_their_format(tmp_path: Path):
    begin(EmbeddedLog(tmp_path), "p-a")
    PlacedLog(EmbeddedLog(tmp_path), was={"p-b": ["p-a"]}).settle("p-b")
    for application in ("p-seed", PLACES):
        (commit,) = (tmp_path / "commits" / application).glob("*.json")
        assert json.loads(commit.read_text())["format"] == 4
    state = LogState.load(EmbeddedLog(tmp_path).commits("p-seed"))
    assert json.loads(state.snapshot())["format"] == 4
    assert json.loads(LogState.load(EmbeddedLog(tmp_path).commits("p-a")).snapshot())["format"] == 3


class _Ended(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("step", range(4))
def test_change_that_is_broken_off_anywhere_is_made_by_the_next(
    step: int, kept: Callable[[], Log], monkeypatch: pytest.MonkeyPatch
):
    """The steps: before and after the commit for older versions, before and after the commit of the places."""
    begin(kept(), "p-a", "p-c")
    log, steps = PlacedLog(kept(), was={"p-b": ["p-a"], "p-d": ["p-c"]}), iter(range(4))
    kind = type(kept().commits(PLACES))
    made: Callable[..., str] = kind.create

    def create(store: CommitStore, number: int, data: bytes) -> str:
        if next(steps) == step:
            raise _Ended
        identity = made(store, number, data)
        if next(steps) == step:
            raise _Ended
        return identity

    with monkeypatch.context() as patched:
        patched.setattr(kind, "create", create)
        with pytest.raises(_Ended):
            log.settle("p-b")
    assert PlacedLog(kept()).applications()[0] == ("p-b" if step == 3 else "p-a")
    again = PlacedLog(kept(), was={"p-b": ["p-a"], "p-d": ["p-c"]})
    again.settle("p-b")
    again.settle("p-d")
    assert PlacedLog(kept()).applications() == ["p-b", "p-d", "p-seed"]


def _settle(path: Path, number: int) -> None:
    PlacedLog(EmbeddedLog(path), was={f"p-new{number}": [f"p-old{number}"]}).settle(f"p-new{number}")


def test_processes_that_rename_at_the_same_time_all_do(tmp_path: Path):
    begin(EmbeddedLog(tmp_path), *(f"p-old{number}" for number in range(2)))
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_settle, args=(tmp_path, number // 2)) for number in range(4)]
    for each in processes:
        each.start()
    for each in processes:
        each.join()
    assert [each.exitcode for each in processes] == [0] * 4
    names = PlacedLog(EmbeddedLog(tmp_path)).places().names
    assert names == {f"p-new{number}": f"p-old{number}" for number in range(2)}
    assert EmbeddedLog(tmp_path).commits(PLACES).latest() == 2


def test_places_are_copied_verified_and_listed(tmp_path: Path):
    log = PlacedLog(EmbeddedLog(tmp_path / "log"), was={"p-b": ["p-a"]})
    log.check()
    begin(log.kept, "p-a")
    log.settle("p-b")
    begin(log, "p-c")
    copied = copy_log(log, tmp_path / "copy")
    assert dict(copied.commits) == {"p-b": 1, "p-c": 1, "p-seed": 1}
    copy = PlacedLog(EmbeddedLog(tmp_path / "copy"))
    assert copy.applications() == log.applications() == ["p-b", "p-c", "p-seed"]
    assert [(each.application, each.place) for each in contents(copy)] == [("p-b", "p-a"), ("p-c", ""), ("p-seed", "")]
    verified = Verification(copy).run()
    assert [(each.application, each.commits, each.damages) for each in verified] == [
        ("p-b", 1, ()),
        ("p-c", 1, ()),
        ("p-seed", 1, ()),
        (PLACES, 1, ()),
    ]


def test_damaged_places_are_named_by_whoever_needs_them(tmp_path: Path):
    begin(EmbeddedLog(tmp_path), "p-a")
    PlacedLog(EmbeddedLog(tmp_path), was={"p-b": ["p-a"]}).settle("p-b")
    (commit,) = (tmp_path / "commits" / PLACES).glob("*.json")
    os.truncate(commit, 20)
    with pytest.raises(CommitDamagedError, match=str(commit)):
        PlacedLog(EmbeddedLog(tmp_path)).applications()
    (damaged,) = (each for each in Verification(EmbeddedLog(tmp_path)).run() if each.damages)
    assert damaged.application == PLACES
    shutil.rmtree(commit.parent)
    with pytest.raises(CommitsMissingError, match=PLACES):
        PlacedLog(EmbeddedLog(tmp_path)).place_of("p-b")
