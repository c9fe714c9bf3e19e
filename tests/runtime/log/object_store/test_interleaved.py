"""Two processes work on one application at once: before each request of the one, the other does all that it does.

What comes out must be what comes out if one of them does its part wholly before the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headwater.runtime.log.commit.descriptions import TopologyDescription
from headwater.runtime.log.commit.records import TaskCommit
from headwater.runtime.log.durable_files import collect_garbage
from headwater.runtime.log.errors import FullyRefreshedError
from headwater.runtime.log.log import epoch_file_name
from headwater.runtime.log.object_store import commits, objects
from headwater.runtime.log.object_store.log import ObjectStoreLog
from headwater.runtime.log.object_store.objects import Objects
from headwater.runtime.log.state import LogState
from headwater.runtime.progress.committer import Committer, FencedError
from headwater.runtime.task_id import TaskKey

REQUESTS = ("create", "make", "put", "find", "get", "get_all", "get_ranges", "below", "folders", "remove")
TASK = TaskKey("a", "part", 0)

Records = Callable[[int], pa.Table]


class OneByOne:
    """In place of threads, so that a test knows which request comes when."""

    def map(self, function: Callable[..., Any], *given: Iterable[Any]) -> Iterator[Any]:
        return map(function, *given)


@dataclass
class Between:
    """Has something happen before one of the requests of this process."""

    at: int = -1
    happens: Callable[[], object] = lambda: None
    requests: int = 0
    inside: bool = False

    def begin(self, at: int, happens: Callable[[], object]) -> None:
        self.at, self.happens, self.requests = at, happens, 0

    def before_request(self) -> None:
        if self.inside:
            return
        if self.requests == self.at:
            self.now()
        self.requests += 1

    def now(self) -> None:
        self.inside = True
        try:
            self.happens()
        finally:
            self.inside = False


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Between:
    between = Between()

    def counted(request: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            between.before_request()
            return request(*given, **named)

        return call

    for name in REQUESTS:
        monkeypatch.setattr(Objects, name, counted(getattr(Objects, name)))
    for module in (commits, objects):
        monkeypatch.setattr(module, "threads", OneByOne)
    return between


class Process:
    """One of two processes, each with its own log and its own state of the application. `name`: its incarnation's."""

    def __init__(self, root: Path, name: str, records: Records) -> None:
        self.log = ObjectStoreLog(root.as_uri())
        self.name = name
        self.records = records
        self.state = LogState.load(self.log.commits("a"))
        self.committer = Committer(self.state)
        self.epochs = count(1)

    def claim(self) -> None:
        self.committer.claim(TopologyDescription(incarnation=self.name * 8))

    def commit(self) -> None:
        epoch = next(self.epochs)
        name = epoch_file_name(self.state.incarnation, self.committer.generation, epoch, TASK, 0)
        listed = self.log.write("a", "t", name, self.records(1), 0, lane=0)
        progress = TaskCommit("part", 0, {}, 0, records=self.state.tasks.last_commit(TASK).records + 1, segments=listed)
        self.committer.commit(epoch, [progress])

    def drop(self) -> None:
        self.log.drop("a")

    def begin_again(self) -> None:
        """`--full-refresh`."""
        self.drop()
        self.state = LogState.load(self.log.commits("a"))
        self.committer = Committer(self.state)
        self.claim()
        self.commit()

    def begin_twice(self) -> None:
        self.begin_again()
        self.begin_again()

    def follow(self) -> None:
        self.state.refresh()

    def search(self) -> None:
        """What a driver does every ten minutes."""
        self.log.remove_leftovers()
        collect_garbage(self.log, "a", self.state)

    def start(self) -> None:
        self.log.check()

    def fold(self) -> None:
        number, identity = self.state.number, self.state.commits.identity(self.state.number)
        if identity and self.state.commits.save_snapshot(number, self.state.snapshot(), identity):
            self.state.commits.fold(number, identity)


FIRST = ("commit", "search", "fold", "follow", "start")
"""What a driver does that has claimed the application."""

SECOND = ("claim", "drop", "begin_again", "search", "follow", "start")
"""What another process does, which knows the application as it was some commits ago."""

Outcome = tuple[object, ...]


def result(action: Callable[[], object]) -> str:
    """Any other error than these is a defect."""
    try:
        action()
    except (FencedError, FullyRefreshedError):
        return "refused"
    return "done"


class Case:
    """An application in its second era, with some commits if it has `begun`, and two processes that know it."""

    def __init__(self, root: Path, records: Records, begun: bool) -> None:
        self._process = lambda name: Process(root, name, records)
        zeroth = self._process("zeroth")
        zeroth.start()
        zeroth.begin_again()
        zeroth.drop()
        self.first = self._process("first")
        if begun:
            self.first.claim()
        self.second = self._process("second")
        if begun:
            self.first.commit()
            self.first.commit()

    def action(self, of: str) -> Callable[[], object]:
        who, _, what = of.partition(" ")
        action: Callable[[], object] = getattr(getattr(self, who), what)
        return action

    def outcome(self) -> Outcome:
        """What everybody finds afterwards, and may do."""
        entered = self.first.log.applications()
        third = self._process("third")
        third.claim()
        third.commit()
        later = [result(self.action(each)) for each in ("first commit", "first search", "second follow")]
        third.start()
        third.commit()
        loaded = self._process("reader").state
        there = {file.path for file in third.log.files("a")}
        missing = [path for path in loaded.paths() if path not in there]
        return entered, later, loaded.number, loaded.incarnation, loaded.tasks.last_commit(TASK).records, missing


def compare(root: Path, records: Records, between: Between, one: str, other: str, begun: bool = True) -> None:
    """Do the one with the other before each of its requests, and compare with one after the other."""
    folders = (root / f"{other} {number}" for number in count())

    def new() -> Case:
        return Case(next(folders), records, begun)

    case = new()
    one_did, other_did = result(case.action(one)), result(case.action(other))
    serial = [(one_did, other_did, case.outcome())]
    case = new()
    other_did, one_did = result(case.action(other)), result(case.action(one))
    serial.append((one_did, other_did, case.outcome()))
    for at in count():
        case, did = new(), list[str]()
        between.begin(at, partial(lambda case, did: did.append(result(case.action(other))), case, did))
        one_did = result(case.action(one))
        between.at = -1
        if not did:
            assert at, "there was no request"
            return
        assert (one_did, *did, case.outcome()) in serial, f"{other} before request {at} of {one}"


@pytest.mark.parametrize("second", SECOND)
@pytest.mark.parametrize("first", FIRST)
def test_what_two_processes_do_at_once_comes_out_as_if_one_came_after_the_other(
    first: str, second: str, between: Between, tmp_path: Path, records: Records
) -> None:
    compare(tmp_path, records, between, f"first {first}", f"second {second}")
    compare(tmp_path, records, between, f"second {second}", f"first {first}")


@pytest.mark.parametrize("second", ["claim", "begin_again", "begin_twice", "start"])
def test_first_commit_comes_out_as_if_another_process_came_before_or_after_it(
    second: str, between: Between, tmp_path: Path, records: Records
) -> None:
    compare(tmp_path, records, between, "first claim", f"second {second}", begun=False)
