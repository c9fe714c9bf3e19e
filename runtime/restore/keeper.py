"""Works on a client's stores where they lie: in the driver for virtual clients, in a Spark task for an executor.

Without memory from one request to the next: which process of an executor is asked is up to Spark. What goes wrong with
one store is in its answer, and the other stores are gone on with.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from ...errors import HeadwaterError
from ..chosen_plugins import Plugged
from ..state.changelog import apply_slice, catch_up, start_empty
from ..state.claim import claim, executor_process
from ..state.directory import StateDirectory
from ..state.known_log import check_known, place_of
from ..state.process_file import Owner, ProcessFile
from ..state.restore_strategy import RestoreRequest
from ..state.store import StateStore, StoreDamagedError
from ..state.synced_commit import keep_note, note_sync
from ..state.task_stores import GLOBAL, expire_below
from ..tasks.errors import TaskCorruptedError, TaskMigratedError
from ..tasks.task_id import StoreId
from ..topology import PluginRef
from .requests import Home, Planned, StateAnswer, StateRequest, StoreAnswer, Trouble
from .store_check import Kept, damaged


class WrongDirectoryError(HeadwaterError):
    """A client's state directory is not where it was: it was removed, or the request came to another machine."""

    def __init__(self, path: Path, process_id: str) -> None:
        super().__init__(f"the state directory of client {process_id} is not at {path} any more", "run again")
        self.path = path
        self.process_id = process_id


def answer(request: StateRequest) -> StateAnswer:
    """Do what is asked."""
    try:
        if request.what == "hold":
            return _held(request.home)
        keeper = Keeper(request.home)
        return keeper.released() if request.what == "release" else keeper.answer(request)
    except HeadwaterError as error:
        return StateAnswer(trouble=_trouble(error))
    except OSError as error:
        return StateAnswer(trouble=Trouble("failed", f"the state directory cannot be used: {error}"))


def _held(home: Home) -> StateAnswer:
    """Own the directory, without what was made of other commits."""
    folder = home.folder
    if not folder:
        owner = executor_process(os.getpid()) or Owner.of(os.getpid())
        if owner is None:  # this process is there, unless the system does not tell
            raise HeadwaterError("the process of this executor cannot be found")
        folder = claim(Path(home.state_dir), home.application, owner)
    directory = StateDirectory(Path(home.state_dir), folder, home.application)
    found = ProcessFile.read(directory.path)
    if found is None:
        raise WrongDirectoryError(directory.path, home.process_id)
    check_known(directory.path, home.log_identity, place_of(*home.log))
    now = replace(found, incarnation=home.incarnation or found.incarnation, log=home.log_identity, closed=False)
    if found.incarnation and now.incarnation != found.incarnation:
        directory.remove_all()  # first: a copy under the new incarnation would pass for one of its own
    if now != found:
        now.written(directory.path)
    strangers = directory.remove_strangers(Plugged(home.plugins).log(PluginRef(*home.log)))
    broken = () if found.closed else tuple(_broken(directory, home))
    backends = {store.name: Plugged(home.plugins).backend(store) for store in home.stores}
    opened = [
        (each, backends[each.store].open(directory.store_path(each)))
        for each in directory.stores()
        if each.store in backends
    ]
    held = tuple(_standing(each, store) for each, store in opened)
    return StateAnswer(folder, found.process_id, (*broken, *held), strangers=strangers)


def _broken(directory: StateDirectory, home: Home) -> Iterator[StoreAnswer]:
    """Wipe the stores that are found damaged when they are read in another process, before this one opens any."""
    declared = {store.name: store for store in home.stores}
    of_tasks = {
        str(directory.store_path(each)): (each, declared[each.store])
        for each in directory.stores()
        if each.store in declared
    }
    kept = [Kept(store, path) for path, (_, store) in of_tasks.items()]
    tables = ((store, directory.path / GLOBAL / store.name) for store in home.tables)
    kept += [Kept(store, str(path)) for store, path in tables if path.is_dir()]
    for at, cause in damaged(kept, home.plugins).items():
        directory.remove_at(Path(at))
        if at in of_tasks:  # a global table has all of its rows from its topic
            store, _ = of_tasks[at]
            yield StoreAnswer(store.store, store.partition, 0, damage=cause)


def _standing(store: StoreId, opened: StateStore) -> StoreAnswer:
    answer = StoreAnswer(store.store, store.partition, 0)
    try:
        return replace(answer, position=opened.position)
    except StoreDamagedError as error:
        return replace(answer, position=opened.position, damage=error.cause)


class Keeper:
    """The stores of one application on one client. Raises WrongDirectoryError where they are not."""

    def __init__(self, home: Home) -> None:
        self._directory = StateDirectory(Path(home.state_dir), home.folder, home.application)
        found = ProcessFile.read(self._directory.path)
        if found is None or found.process_id != home.process_id:
            raise WrongDirectoryError(self._directory.path, home.process_id)
        self._home = home
        self._declared = {store.name: store for store in home.stores}
        self._plugged = Plugged(home.plugins)
        self._log = self._plugged.log(PluginRef(*home.log))
        self._strategy = self._plugged.restore_strategy(PluginRef(*home.strategy))
        self._lost: set[StoreId] = set()

    def answer(self, request: StateRequest) -> StateAnswer:
        """Do what is asked with each store."""
        work: dict[str, Callable[[Planned], int]] = {
            "look": self._look,
            "restore": self._restore,
            "close": self._close,
            "let_go": self._let_go,
            "wipe": self._wipe,
        }
        stores = tuple(self._store(work[request.what], each) for each in request.stores)
        return StateAnswer(self._home.folder, self._home.process_id, stores)

    def released(self) -> StateAnswer:
        """Note that all stores are closed: whoever takes them next can open them without a look."""
        found = ProcessFile.read(self._directory.path)
        if found is not None:
            replace(found, closed=True).written(self._directory.path)
        return StateAnswer(self._home.folder, self._home.process_id)

    def _store(self, work: Callable[[Planned], int], planned: Planned) -> StoreAnswer:
        """One that is found damaged stands at nothing from then on, which is no trouble: it is restored."""
        answer = StoreAnswer(planned.input.store, planned.partition, planned.input.applied)
        try:
            answer = replace(answer, position=work(planned))
        except StoreDamagedError as error:
            answer = replace(answer, position=self._open(planned).position, damage=error.cause)
        except HeadwaterError as error:
            answer = replace(answer, trouble=_trouble(error))
        return replace(answer, lost=self._id(planned) in self._lost)

    def _look(self, planned: Planned) -> int:
        """Through all rows: where one store is damaged, others may be."""
        store = self._open(planned)
        for _ in store.range(None, None):
            pass
        return store.position

    def _restore(self, planned: Planned) -> int:
        """A lost store whose changelog is not kept starts empty."""
        store, to = self._open(planned), planned.input
        found = store.position
        note_sync(self._path(planned), to.commit)
        if found > to.position:
            raise TaskCorruptedError(f"store {to.store} is ahead of its changelog: {found} > {to.position}")
        if not self._declared[to.store].changelog and start_empty(store, to):
            self._lost.add(self._id(planned))
            return store.position
        wanted = RestoreRequest(to.store, planned.partition, found, to.position, to.segments)
        for step in self._strategy.slices(wanted):
            apply_slice(store, step, self._log)
        return store.position

    def _close(self, planned: Planned) -> int:
        """What is left does not tell of epochs: all that is committed is applied, and nothing is there that expired."""
        store = self._open(planned)
        position = self._restore(planned)
        catch_up(store, planned.input, self._log, expire_below(self._declared[planned.input.store], planned.input))
        store.close()
        keep_note(self._path(planned))
        return position

    def _let_go(self, planned: Planned) -> int:
        self._open(planned).close()
        return planned.input.applied

    def _wipe(self, planned: Planned) -> int:
        self._directory.remove(self._id(planned))
        return 0

    def _open(self, planned: Planned) -> StateStore:
        return self._plugged.backend(self._declared[planned.input.store]).open(self._path(planned))

    def _path(self, planned: Planned) -> Path:
        return self._directory.store_path(self._id(planned))

    def _id(self, planned: Planned) -> StoreId:
        return StoreId(planned.input.store, planned.partition)


def _trouble(error: HeadwaterError) -> Trouble:
    match error:
        case TaskCorruptedError():
            return Trouble("corrupted", error.reason)
        case TaskMigratedError():
            return Trouble("migrated", error.what, "", error.expected, error.found)
    return Trouble("failed", error.message, error.hint or "")
