"""How a client joins an application's group: it locks its state directory and reports its stores."""

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
from .client_events import (
    CopiesRemoved,
    ForeignStoresWiped,
    SnapshotNotSaved,
    SnapshotUnusable,
    StoreDamaged,
    StoreLost,
    StoreOutdated,
)
from .cluster import Cluster
from .epochs import EpochCommits
from .errors import SharedStateError
from .events import Observer
from .member import GroupContext, GroupMember
from .restoring import RestoreEvents

Given = TypeVar("Given")
Found = TypeVar("Found")


@dataclass(frozen=True)
class Newcomer:
    """A client that has locked its directory, and is not a member yet."""

    member: Member
    link: StateLink


class Joining:
    """Makes clients members. `begin` is called before the first one joins."""

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
        self._group: GroupContext
        self._commits: EpochCommits
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
        """Set what members need.

        `incarnation`: of the application; copies of another one are removed. `commits`: commits the members' tasks.
        `submit`: runs the slices of their restores. `copy`: runs the saves of their snapshots.
        """
        self._location = replace(self._location, incarnation=incarnation)
        self._commits, self._copy = commits, copy
        self._group = GroupContext(
            self._topology, self._planner, self._location, commits, submit, self._strategy, self._snapshots
        )

    def join(self, clients: Sequence[Client]) -> list[GroupMember]:
        """Make members of the first clients.

        Raises ClientLostError, StateJobError, StateError, SharedStateError.
        """
        return self.admit(for_each(clients, self.look), ())

    def look(self, client: Client) -> Newcomer:
        """Let a client lock its directory. It takes seconds if its first worker has to be started.

        Raises ClientLostError, StateJobError, StateError.
        """
        link = IsolatingLink(self._cluster.link(client, self._topology.application))
        return Newcomer(self._held(client, link), link)

    def admit(self, newcomers: Sequence[Newcomer], here: Sequence[Client]) -> list[GroupMember]:
        """Make newcomers members. `here`: the present members. Raises SharedStateError."""
        self._check_shared([*here, *(newcomer.member.client for newcomer in newcomers)])
        return [self._member(newcomer.member, newcomer.link) for newcomer in newcomers]

    def fence(self, lost: Client) -> None:
        """Let a lost client join again only under another process id, so that its earlier work has no effect."""
        self._fenced[lost.name] = lost.process_id

    def _member(self, joined: Member, link: StateLink) -> GroupMember:
        name, strategy = joined.client.name, self._strategy
        member = GroupMember(self._group, joined, link, partial(self._report, name), self._listener(name))
        if isinstance(strategy, SavingStrategy):
            unsaved = partial(self._report_unsaved, name)
            member.saver = StoreSaver(
                member.stores, strategy, self._snapshots, self._state, self._commits, self._copy, unsaved
            )
        delay = self._settings.state_cleanup_delay_ms / 1000
        member.cleaner = StoreCleaner(member.stores, delay, self._group.submit, partial(self._report_removed, name))
        return member

    def _listener(self, client: str) -> RestoreListener:
        plugins = ChosenPlugins(origin_of(self._settings)).restore_listeners()
        return Listeners(
            RestoreEvents(self._topology.application, client, self._observer, self._planner.bytes_from), plugins
        )

    def _held(self, client: Client, link: StateLink) -> Member:
        """The client with its directory, process id and stores, as it reports them."""
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
        for store in answer.stores:
            self._report(client.name, store)
        return Member(
            replace(client, folder=answer.folder, process_id=answer.process_id),
            {store.store: store.position for store in answer.stores if store.store.partition != TABLE},
            self._racks.rack(client),
            self._racks.tags(client),
            answer.unopened,
        )

    def _report(self, client: str, answer: StoreResponse) -> None:
        """Report a store that was damaged, is outdated, has lost its rows, or has an unusable snapshot."""
        at = self._topology.application, client, answer.store.store, answer.store.partition
        if answer.damage:
            self._observer.on(StoreDamaged(*at, answer.damage))
        if answer.outdated:
            self._observer.on(StoreOutdated(*at, answer.outdated, answer.horizon))
        if answer.lost:
            self._observer.on(StoreLost(*at))
        if answer.unusable:
            self._observer.on(SnapshotUnusable(*at, answer.unusable))

    def _report_removed(self, client: str, stores: Sequence[StoreId], cause: str) -> None:
        names = tuple(map(str, stores))
        self._observer.on(CopiesRemoved(self._topology.application, client, names, cause))

    def _report_unsaved(self, client: str, store: StoreId, cause: str) -> None:
        self._observer.on(SnapshotNotSaved(self._topology.application, client, store.store, store.partition, cause))

    def _check_shared(self, clients: Sequence[Client]) -> None:
        by_id: dict[str, list[Client]] = {}
        for client in clients:
            by_id.setdefault(client.process_id, []).append(client)
        for shared in by_id.values():
            if len(shared) > 1:
                path = f"{self._settings.state_dir}/{shared[0].folder}"
                raise SharedStateError(self._topology.application, [client.name for client in shared], path)


def for_each(given: Sequence[Given], work: Callable[[Given], Found]) -> list[Found]:
    """Map `work` over clients in parallel threads: most of the time they wait."""
    if len(given) == 1:  # needs no thread
        return [work(given[0])]
    with ThreadPoolExecutor(max(1, len(given))) as pool:
        return list(pool.map(work, given))
