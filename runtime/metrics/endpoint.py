"""Serves the numbers of a run as Prometheus' text on this machine, while the run goes on."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...errors import HeadwaterError
from ..driver.reports.events import Event, StatusTaken
from ..driver.reports.status import RunStatus
from .families import FAMILIES
from .samples import samples

if TYPE_CHECKING:
    from prometheus_client import Metric

HOST = "127.0.0.1"
"""Nobody but this machine is served: the numbers are for whoever may log in here."""


class PortTakenError(HeadwaterError):
    """The port for metrics cannot be used: `port`, `cause`."""

    def __init__(self, port: int, cause: str) -> None:
        super().__init__(
            f"metrics cannot be served on port {port} of {HOST}: {cause}",
            "name another port; with --metrics-port 0 the system chooses one that is free",
        )
        self.port = port
        self.cause = cause


class LastStatuses:
    """An observer that keeps the last status of each application, and a collector of prometheus-client.

    What is not in the last status is not shown any more: tasks that have moved away, clients that are gone.
    """

    def __init__(self) -> None:
        self._last: dict[str, RunStatus] = {}
        self._lock = threading.Lock()

    def on(self, event: Event) -> None:
        """Keep the status, if it is one."""
        if isinstance(event, StatusTaken):
            with self._lock:
                self._last[event.application] = event.status

    def collect(self) -> Iterator[Metric]:
        """All metrics of all applications. Called by any thread."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        with self._lock:
            statuses = list(self._last.values())
        kinds = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily}
        found = {
            name: kinds[family.kind](name, family.meaning, labels=family.labels) for name, family in FAMILIES.items()
        }
        for status in statuses:
            for family, labels, value in samples(status):
                found[family.name].add_metric(labels, value)
        yield from found.values()


@contextmanager
def served(port: int) -> Iterator[tuple[LastStatuses, str]]:
    """An observer whose numbers are served until the block ends, and the URL. 0: any port that is free.

    Raises PortTakenError.
    """
    from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server

    statuses = LastStatuses()
    registry = CollectorRegistry(auto_describe=False)
    registry.register(statuses)
    ProcessCollector(registry=registry)
    try:
        server, thread = start_http_server(port, HOST, registry)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        raise PortTakenError(port, "another program has it" if taken else error.strerror or str(error)) from error
    try:
        yield statuses, f"http://{HOST}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
