"""How a client becomes a member of an application's group: it takes its state directory, and tells what is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from ..chosen_plugins import ChosenPlugins, origin_of
from ..ir.topology import Settings, Topology
from ..placing.place import Client, Member, Racks
from ..progress.committed import Committed
from ..progress.planner import Planner
from ..restore.copies import Snapshots
from ..restore.linked_stores import StateError
from ..restore.links import IsolatingLink, StateLink, claim_stores
from ..restore.requests import TABLE, StateLocation, StoreResponse
from ..restore.store_changelog_reader import Listeners
from ..restore.store_saver import StoreCleaner, StoreSaver
from ..restore.strategies import checked
from ..state.restore_listener import RestoreListener
from ..state.restore_strategy import SavingStrategy
from ..task_id import StoreId
from .cluster import Cluster
from .epochs import EpochCommits
from .errors import SharedStateError
from .events import (
    CopiesRemoved,
    ForeignStoresWiped,
    Observer,
    SnapshotNotSaved,
    SnapshotUnusable,
    StoreDamaged,
    StoreLost,
    StoreOutdated,
)
from .member import GroupMember
from .restoring import RestoreEvents

Given = TypeVar("Given")
Found = TypeVar("Found")


@dataclass(frozen=True)
class Newcomer:
    """A client that has taken its directory, and is no member yet."""

    member: Member
    link: StateLink


class Joining:
    """Makes members of clients. `begin` comes before the first."""

    def __init__(
        self, cluster: Cluster, topology: Topology, settings: Settings, committed: Committed, observer: Observer
    ) -> None:
        self._cluster = cluster
        self._topology = topology
        self._settings = settings
        self._observer = observer
        self._planner = Planner(committed, settings.max_records, settings.max_bytes)
        self._committed = committed
        self._racks = Racks(settings)
        self._commits: EpochCommits
        self._submit: Callable[..., Future[Any]]
        self._copy: Callable[..., Future[Any]]
        self._state = committed.own
        self._fenced: dict[str, str] = {}
        self._snapshots = Snapshots(committed.own)
        plugins = ChosenPlugins(origin_of(settings))
        self._strategy = checked(topology.restore.name, plugins.restore_strategy(topology.restore))
        self._location = StateLocation(
            settings.state_dir,
            topology.application,
            log=(settings.log.name, settings.log.options),
            log_identity=committed.log.identity(),
            plugins=origin_of(settings),
            stores=tuple(store for part in topology.subtopologies for store in part.stores),
            tables=topology.global_tables,
            former=tuple(sorted(committed.own.former)),
            renamed=dict(committed.own.renaming.stores),
        )

    def begin(
        self,
        incarnation: str,
        commits: EpochCommits,
        submit: Callable[..., Future[Any]],
        copy: Callable[..., Future[Any]],
    ) -> None:
        """`incarnation`: of the application; copies of another one are removed. `commits`: of the members' tasks;
        `submit`: runs the slices of their restores. `copy`: copies their stores."""
        self._location = replace(self._location, incarnation=incarnation)
        self._commits, self._submit, self._copy = commits, submit, copy

    def join(self, clients: Sequence[Client]) -> list[GroupMember]:
        """Make members of the first clients.

        Raises ClientLostError, StateJobError, StateError, SharedStateError.
        """
        return self.admit(for_each(clients, self.look), ())

    def look(self, client: Client) -> Newcomer:
        """Have a client take its directory. It takes seconds where its first worker has to be started.

        Raises ClientLostError, StateJobError, StateError.
        """
        link = IsolatingLink(self._cluster.link(client, self._topology.application))
        return Newcomer(self._held(client, link), link)

    def admit(self, found: Sequence[Newcomer], here: Sequence[Client]) -> list[GroupMember]:
        """Make members of clients, beside those that are `here`. Raises SharedStateError."""
        self._refuse_shared([*here, *(each.member.client for each in found)])
        return [self._member(each.member, each.link) for each in found]

    def fence(self, lost: Client) -> None:
        """A client that was lost joins under another process id, so that what it began before does nothing."""
        self._fenced[lost.name] = lost.process_id

    def _member(self, found: Member, link: StateLink) -> GroupMember:
        name, strategy = found.client.name, self._strategy
        member = GroupMember(
            found,
            link,
            self._location,
            self._topology,
            self._planner,
            self._commits,
            self._submit,
            partial(self._tell, name),
            self._listener(name),
            strategy,
            self._snapshots,
        )
        if isinstance(strategy, SavingStrategy):
            told, saves = partial(self._tell_unsaved, name), strategy
            member.save_with(
                lambda stores: StoreSaver(stores, saves, self._snapshots, self._state, self._commits, self._copy, told)
            )
        removed = partial(self._tell_removed, name)
        delay = self._settings.state_cleanup_delay_ms / 1000
        member.clean_with(lambda stores: StoreCleaner(stores, delay, self._submit, removed))
        return member

    def _listener(self, client: str) -> RestoreListener:
        plugins = ChosenPlugins(origin_of(self._settings)).restore_listeners()
        return Listeners(
            RestoreEvents(self._topology.application, client, self._observer, self._planner.bytes_from), plugins
        )

    def _held(self, client: Client, link: StateLink) -> Member:
        """A client as it finds itself: its folder, its process id, its stores."""
        location = replace(
            self._location,
            folder=client.folder,
            assignment=self._committed.own.number,
            fenced=self._fenced.get(client.name, ""),
        )
        answer = claim_stores(link, location)
        if answer.failure is not None:
            raise StateError(client.name, answer.failure)
        if answer.foreign_stores:
            self._observer.on(ForeignStoresWiped(self._topology.application, client.name, answer.foreign_stores))
        for each in answer.stores:
            self._tell(client.name, each)
        return Member(
            replace(client, folder=answer.folder, process_id=answer.process_id),
            {StoreId(each.store, each.partition): each.position for each in answer.stores if each.partition != TABLE},
            self._racks.rack(client),
            self._racks.tags(client),
            answer.unopened,
        )

    def _tell(self, client: str, answer: StoreResponse) -> None:
        """Of a store that was damaged, has lost its rows, begins again, or has a snapshot that cannot be loaded."""
        at = self._topology.application, client, answer.store, answer.partition
        if answer.damage:
            self._observer.on(StoreDamaged(*at, answer.damage))
        if answer.outdated:
            self._observer.on(StoreOutdated(*at, answer.outdated, answer.horizon))
        if answer.lost:
            self._observer.on(StoreLost(*at))
        if answer.unusable:
            self._observer.on(SnapshotUnusable(*at, answer.unusable))

    def _tell_removed(self, client: str, stores: Sequence[StoreId], cause: str) -> None:
        names = tuple(map(str, stores))
        self._observer.on(CopiesRemoved(self._topology.application, client, names, cause))

    def _tell_unsaved(self, client: str, store: StoreId, cause: str) -> None:
        self._observer.on(SnapshotNotSaved(self._topology.application, client, store.store, store.partition, cause))

    def _refuse_shared(self, clients: Sequence[Client]) -> None:
        by_id: dict[str, list[Client]] = {}
        for client in clients:
            by_id.setdefault(client.process_id, []).append(client)
        for shared in by_id.values():
            if len(shared) > 1:
                path = f"{self._settings.state_dir}/{shared[0].folder}"
                raise SharedStateError(self._topology.application, [client.name for client in shared], path)


def for_each(given: Sequence[Given], work: Callable[[Given], Found]) -> list[Found]:
    """Do the same for all clients at once: most of it is waiting for them."""
    if len(given) == 1:  # nobody else waits: no thread is started for it
        return [work(given[0])]
    with ThreadPoolExecutor(max(1, len(given))) as pool:
        return list(pool.map(work, given))
