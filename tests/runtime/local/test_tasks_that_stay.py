"""A rebalance whose restore takes long: the tasks that stay where they are go on meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from headwater.runtime.cluster.local import LocalCluster
from headwater.runtime.driver.client_events import TasksPlaced
from headwater.runtime.placing.place import Client
from headwater.runtime.restore.links import LocalLink, StateLink
from headwater.runtime.restore.requests import StateRequest, StateResponse
from headwater.tests.runtime.local.summing import fed, summed
from headwater.tests.runtime.local.test_rebalance import Story, sticky, whole


class Gated(LocalCluster):
    """The real clients; restores of client-2 wait until `gate` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()

    def link(self, client: Client, application: str) -> StateLink:
        return GatedLink(self.gate) if client.name == "client-2" else super().link(client, application)


class GatedLink(LocalLink):
    def __init__(self, gate: threading.Event) -> None:
        self._gate = gate

    def send(self, requests: Sequence[StateRequest]) -> list[StateResponse]:
        if any(request.what == "restore" for request in requests):
            self._gate.wait()
        return super().send(requests)


def test_tasks_that_stay_commit_while_others_are_restored_for_long(application) -> None:
    app = fed(application(summed()))
    sticky(app)
    cluster = Gated()
    cluster.lose("client-2")
    meanwhile = list[int]()

    def then(commits: int) -> None:
        if commits == 3:
            cluster.find("client-2")
        if len(story.of(TasksPlaced)) == 2 and not cluster.gate.is_set():
            meanwhile.append(commits)
            assert story.commits_by("client-2") == 0
            if len(meanwhile) == 5:
                cluster.gate.set()

    story = Story(then)
    result = app.attempt(app.settings(max_records=2, clients=2), cluster, story)
    assert (result.status, result.error) == ("caught_up", None)
    assert len(meanwhile) == 5
    assert story.commits_by("client-2") > 0
    whole(app)
