"""Links to a client's stores: the protocol, and the link for stores on the driver's own disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ...errors import HeadwaterError
from .client_stores import answer
from .requests import StateAnswer, StateRequest


class StateJobError(HeadwaterError):
    """The job that worked on a client's stores failed: `client`, `cause`."""

    def __init__(self, application: str, client: str, cause: str) -> None:
        super().__init__(f"the stores of {application} on {client} could not be worked on: {cause}")
        self.application = application
        self.client = client
        self.cause = cause


class StateLink(Protocol):
    """Sends requests to where a client's stores are, and returns the answers."""

    @property
    def threads(self) -> int:
        """How many requests are processed at once."""
        ...

    @property
    def in_driver(self) -> bool:
        """Whether this process opens the stores' files."""
        ...

    def ask(self, requests: Sequence[StateRequest]) -> list[StateAnswer]:
        """One answer for each request, in the same order. Raises ClientLostError, StateJobError."""
        ...


class InDriver:
    """The link to a virtual client, whose stores are on the driver's disk."""

    threads = 1
    in_driver = True

    def ask(self, requests: Sequence[StateRequest]) -> list[StateAnswer]:
        """Process the requests one after another."""
        return [answer(request) for request in requests]
