"""A queue of clients by weight, from which the lightest allowed client is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush


class ConstrainedPrioritySet:
    """Clients by weight and number, named after the class in Kafka Streams.


    A client that was taken out must be offered again. It is a heap. Outdated entries stay in it until they reach the
    top, so offering a client again is cheap.
    """

    def __init__(self, weights: Sequence[float]) -> None:
        """`weights`: by client. A client counts with the weight that it had when it was last offered."""
        self._weights = weights
        self._offers = [0] * len(weights)
        self._heap: list[tuple[float, int, int]] = []

    def offer(self, client: int) -> None:
        """Add a client, or move it after its weight has changed."""
        offer = self._offers[client] = self._offers[client] + 1
        heappush(self._heap, (self._weights[client], client, offer))

    def offer_all(self, clients: Iterable[int]) -> None:
        """Offer each of the clients."""
        for client in clients:
            self.offer(client)

    def poll(self, allowed: Callable[[int], bool] | None = None) -> int | None:
        """Take out the lightest allowed client, the first of equals; None if there is none."""
        heap, aside, found = self._heap, [], None
        while heap:
            entry = heappop(heap)
            client, offer = entry[1:]
            if offer != self._offers[client]:
                continue
            if allowed is None or allowed(client):
                found = client
                self._offers[client] += 1
                break
            aside.append(entry)
        for entry in aside:
            heappush(heap, entry)
        return found
