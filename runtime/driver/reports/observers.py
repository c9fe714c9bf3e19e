"""Several observers of a run as one."""

from __future__ import annotations

from .events import Event, Observer


class Observers:
    """Several observers as one."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def on(self, event: Event) -> None:
        """Hand an event to each, in their order."""
        for each in self._observers:
            each.on(event)
