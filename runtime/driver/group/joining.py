"""How a client becomes a member of an application's group: it takes its state directory, and tells what is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TypeVar

from ...chosen_plugins import ChosenPlugins, origin_of
from ...placing.client import Client
from ...placing.hosts import Racks
from ...placing.place import Member
from ...progress.committed import Committed
from ...progress.planner import Planner
from ...restore.linked_stores import StateError
from ...restore.links import StateLink
from ...restore.listeners import Listeners
from ...restore.requests import StateLocation, StateRequest, StoreAnswer
from ...restore.store_changelog_reader import Submit
from ...state.restore_listener import RestoreListener
from ...task_id import StoreId
from ...tasks.interfaces import Commits
from ...topology import Settings, Topology
from ..cluster import Cluster
from ..errors import SharedStateError
from ..reports.events import ForeignStoresWiped, Observer, StoreDamaged, StoreLost
from ..reports.restore_events import RestoreEvents
from .member import GroupMember

Given = TypeVar("Given")
Found = TypeVar("Found")


class Joining:
    """Makes members of clients. `begin` comes before the first."""

    def __init__(
        self, cluster: Cluster, topology: Topology, settings: Settings, committed: Committed, observer: Observer
    ) -> None:
        self._cluster = cluster
        self._topology = topology
        self._settings = settings
        self._observer = observer
        self._planner = Planner(committed, settings.max_records)
        self._racks = Racks(settings)
        self._commits: Commits
        self._submit: Submit
        self._location = StateLocation(
            settings.state_dir,
            topology.application,
            log=(settings.log.name, settings.log.options),
            log_identity=committed.log.identity(),
            plugins=origin_of(settings),
            strategy=(topology.restore.name, topology.restore.options),
            stores=tuple(store for part in topology.subtopologies for store in part.stores),
            tables=tuple(table.store for part in topology.subtopologies for table in part.global_tables),
        )

    def begin(self, incarnation: str, commits: Commits, submit: Submit) -> None:
        """`incarnation`: of the application; copies of another one are removed. `commits`: of the members' tasks;
        `submit`: runs the slices of their restores."""
        self._location = replace(self._location, incarnation=incarnation)
        self._commits, self._submit = commits, submit

    def join(self, clients: Sequence[Client], here: Sequence[Client]) -> list[GroupMember]:
        """Make members of `clients`, beside those that are `here`.

        Raises ClientLostError, StateJobError, StateError, SharedStateError.
        """
        links = {client.name: self._cluster.link(client, self._topology.application) for client in clients}
        found = for_each(clients, lambda client: self._held(client, links[client.name]))
        self._refuse_shared([*here, *(each.client for each in found)])
        return [
            GroupMember(
                member,
                links[member.client.name],
                self._location,
                self._topology,
                self._planner,
                self._commits,
                self._submit,
                partial(self._tell, member.client.name),
                self._listener(member.client.name),
            )
            for member in found
        ]

    def _listener(self, client: str) -> RestoreListener:
        plugins = ChosenPlugins(origin_of(self._settings)).restore_listeners()
        return Listeners(RestoreEvents(self._topology.application, client, self._observer), plugins)

    def _held(self, client: Client, link: StateLink) -> Member:
        """A client as it finds itself: its folder, its process id, its stores."""
        (answer,) = link.ask([StateRequest("hold", replace(self._location, folder=client.folder))])
        if answer.failure is not None:
            raise StateError(client.name, answer.failure)
        if answer.foreign_stores:
            self._observer.on(ForeignStoresWiped(self._topology.application, client.name, answer.foreign_stores))
        for each in answer.stores:
            self._tell(client.name, each)
        return Member(
            replace(client, folder=answer.folder, process_id=answer.process_id),
            {StoreId(each.store, each.partition): each.position for each in answer.stores},
            self._racks.rack(client),
            self._racks.tags(client),
        )

    def _tell(self, client: str, answer: StoreAnswer) -> None:
        """Of a store that was damaged, or has lost its rows."""
        at = self._topology.application, client, answer.store, answer.partition
        if answer.damage:
            self._observer.on(StoreDamaged(*at, answer.damage))
        if answer.lost:
            self._observer.on(StoreLost(*at))

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
    with ThreadPoolExecutor(max(1, len(given))) as pool:
        return list(pool.map(work, given))
