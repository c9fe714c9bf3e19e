"""The way to a client's stores: what it is to whoever asks, and the one into this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ...errors import HeadwaterError
from .client_stores import answer
from .requests import StateAnswer, StateRequest


class StateJobError(HeadwaterError):
    """The job that was to work on a client's stores failed: `client`, `cause`."""

    def __init__(self, application: str, client: str, cause: str) -> None:
        super().__init__(f"the stores of {application} on {client} could not be worked on: {cause}")
        self.application = application
        self.client = client
        self.cause = cause


class StateLink(Protocol):
    """Takes requests to where a client's stores are, and brings answers back."""

    @property
    def threads(self) -> int:
        """How many requests are worked on at once."""
        ...

    @property
    def in_driver(self) -> bool:
        """Whether it is this process that opens the stores' files."""
        ...

    def ask(self, requests: Sequence[StateRequest]) -> list[StateAnswer]:
        """One answer for each request, in their order. Raises ClientLostError, StateJobError."""
        ...


class InDriver:
    """The link to a virtual client, whose stores are on the driver's disk."""

    threads = 1
    in_driver = True

    def ask(self, requests: Sequence[StateRequest]) -> list[StateAnswer]:
        """Work on the requests one after the other."""
        return [answer(request) for request in requests]
