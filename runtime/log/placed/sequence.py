"""The places as commits of a reserved application of the log: each has all of them, and is made by one writer.

So a change of several places is there as a whole or not at all, whoever ends where, and who has read the last commit
knows everything. A log in which nothing was ever moved has no such commits, and is as versions before wrote it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property
from threading import Lock

from ..commit.encoding import decode_commit, encode_commit
from ..commit.records import PlacesRecord
from ..commits import CommitStore
from ..errors import CommitDamagedError, CommitExistsError, CommitFormatError
from ..log import Log
from ..state import LogState
from .places import Places

PLACES = "~places"
"""The reserved application. No topology can have this name."""


class PlacesSequence:
    """The places of one log. Many threads may use it."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._number = -1
        self._places = Places()
        self._lock = Lock()

    @cached_property
    def _commits(self) -> CommitStore:
        """Asked for at the first look: an epoch's tasks are told where things lie, and never look."""
        return self._log.commits(PLACES)

    def known(self) -> Places:
        """As they were at the last look; the first call looks. Raises LogError."""
        return self._places if self._number >= 0 else self.look()

    def look(self) -> Places:
        """As they are now. Raises LogError."""
        with self._lock:
            if self._number < 0:
                self._number = 0
                if latest := self._commits.latest():
                    self._take(latest)
            while self._commits.identity(self._number + 1) is not None:
                self._take(self._number + 1)
            return self._places

    def change(self, change: Callable[[Places], Places]) -> Places:
        """Commit what `change` makes of the places, however many others change them at the same time.

        `change` is asked again if others were first, and may raise. Raises LogError.
        """
        while True:
            now = self.look()
            after = change(now)
            if after == now:
                return now
            self._tell_older(now, after)
            with self._lock:
                try:
                    self._commits.create(self._number + 1, encode_commit(PlacesRecord(_now(), after)))
                except CommitExistsError:
                    continue
                self._number, self._places = self._number + 1, after
                return after

    def _take(self, number: int) -> None:
        data = self._commits.read(number)
        try:
            record = None if data is None else decode_commit(data)
        except CommitFormatError as error:
            if error.found is not None:
                raise
            record = None
        if not isinstance(record, PlacesRecord):
            self._number = -1
            raise CommitDamagedError(PLACES, number, "damaged", self._commits.place(number))
        self._number, self._places = number, record.places

    def _tell_older(self, now: Places, after: Places) -> None:
        """Have versions that know no places refuse the log, with a commit that each run of a project reads.

        They would take an application that was moved for one that has not begun.
        """
        for project in sorted(_projects(after) - _projects(now)):
            state = LogState.load(self._log.commits(f"{project}-seed"))
            while not state.placed:
                try:
                    state.commit(PlacesRecord(_now()))
                except CommitExistsError:
                    state.refresh()


def _projects(places: Places) -> set[str]:
    names = (*places.names, *places.given_up, *places.counts)
    return {name.partition("-")[0] for name in names if "-" in name}


def _now() -> int:
    return time.time_ns() // 1_000_000
