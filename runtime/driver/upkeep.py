"""Upkeep beside epochs: the log is cleaned."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Literal, Self

from ...errors import HeadwaterError, MachineError
from ..ir.topology import Settings, Topology
from ..log.cleaning.cleaner import Cleaned, Cleaner, CleaningStoppedError, clean_round, commit_cleaned
from ..log.cleaning.compaction import LIMITS
from ..log.cleaning.deletions import policies_of, policies_of_fed
from ..log.cleaning.held import HeldBack, last_commit_at
from ..log.errors import FullyRefreshedError
from ..log.log import Log
from ..log.state import LogState
from ..log.state_parts.folded import Fold, fold_now
from .epochs import EpochCommits
from .events import LogCleaned, Observer, RecordsHeldBack, UpkeepFailed
from .removal import Epochs, FileRemoval
from .status import RunStatus

# What a driver does beside the epochs, in a thread of its own: keeps snapshots of the log's state, folds old commits,
# removes superfluous files.
#
# All of it may fail, for a full disk or a missing right. Then the log takes more space than it needs. The run says so
# and goes on, and it is tried again.

Work = Literal["fold", "remove"]

_PAUSE_SECONDS = 0.0002
"""Between two pieces of a snapshot: so long that other threads take their turn, which Python gives only every 5 ms."""


class Upkeep:
    """Used from the loop's thread; what takes long is done in another one. At its end, what has begun is waited for."""

    def __init__(self, state: LogState, removal: FileRemoval, observer: Observer) -> None:
        self._state = state
        self._observer = observer
        self._removal = removal
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"{state.application}-upkeep")
        self._working: dict[Work, Future[None]] = {}
        self._ended: list[tuple[Work, Future[None]]] = []
        self._failed: dict[Work, str] = {}
        state.folding = self._fold

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        last = self._pool.submit(self._removal.remove)
        self._pool.shutdown()
        self._state.folding = fold_now
        self._tell()
        self._working["remove"] = last
        self._tell()

    def advance(self, epochs: Epochs) -> None:
        """Begin what is due, and tell what has failed. The state has the commits of all epochs that are decided."""
        self._tell()
        if "remove" not in self._working and self._removal.due():
            self._working["remove"] = self._pool.submit(self._removal.advance, epochs)

    def _fold(self, fold: Fold) -> None:
        """One at a time: what comes due meanwhile is left to the next.

        This is called in the middle of a commit, so nothing is raised or told here.
        """
        before = self._working.get("fold")
        if before is not None and not before.done():
            return
        if before is not None:
            self._ended.append(("fold", before))
        self._working["fold"] = self._pool.submit(fold.run, lambda: time.sleep(_PAUSE_SECONDS))

    def _tell(self) -> None:
        ended, self._ended = self._ended, []
        for work, future in [each for each in self._working.items() if each[1].done()]:
            del self._working[work]
            ended.append((work, future))
        for work, future in ended:
            cause = _cause(future)
            if cause and cause != self._failed.get(work):
                self._observer.on(UpkeepFailed(self._state.application, work, cause))
            self._failed[work] = cause


def _cause(future: Future[None]) -> str:
    """Why it failed; empty if it did not. Raises what is neither the machine's fault nor the log's."""
    try:
        future.result()
    except FullyRefreshedError:
        return ""  # the loop notices it, and ends
    except HeadwaterError as error:
        return str(error)
    except (OSError, MemoryError) as error:
        return str(MachineError.from_error(error))
    return ""


# Has the log cleaned while applications run: by a thread of its own, whose results are committed between epochs.
#
# Source: Kafka's `LogCleaner`, with its `log.cleaner.backoff.ms`. There brokers clean. Here the driver of an
# application does, as it alone commits for it; what is fed from outside has no driver and is cleaned by each run. A
# round reads and writes beside the epochs, its commit takes a few milliseconds. What cannot be cleaned is told, and
# tried again: it costs space and nothing else.

WAIT_SECONDS = 0.005
"""How long the end of a run sleeps at most while the last round goes on."""


class Cleanings:
    """Tells what rounds have come to. A failure that lasts is told once. `topologies`: those of the run."""

    def __init__(self, application: str, topologies: Iterable[Topology], log: Log, observer: Observer) -> None:
        self._application = application
        self._running = {each.application for each in topologies}
        self._log = log
        self._observer = observer
        self._told: set[str] = set()
        self._held: set[tuple[str, str]] = set()

    def done(self, cleaned: Cleaned, segments: int, seconds: float) -> None:
        """A round was committed, with so many segments in the place of others."""
        for each in cleaned.held:
            if each.reader not in self._running and (each.topic, each.reader) not in self._held:
                with suppress(HeadwaterError, OSError):  # the next round tries again
                    self._tell_held(each)
        for damage in cleaned.damage:
            self.failed(damage)
        if segments:
            self._observer.on(LogCleaned(self._application, cleaned.read, segments, seconds))
        elif not cleaned.damage:
            self._told.clear()

    def _tell_held(self, held: HeldBack) -> None:
        """Say which reader records wait for, unless another run is at work for it."""
        text = self._log.read_status(held.reader)
        status = None if text is None else RunStatus.of_text(held.reader, text)
        if status is None or status.condition(time.time_ns() // 1_000_000) != "running":
            self._held.add((held.topic, held.reader))
            since = last_commit_at(self._log, held.reader)
            self._observer.on(RecordsHeldBack(self._application, held.topic, held.reader, held.records, since))

    def failed(self, error: Exception) -> None:
        """A round has failed, or could not read something."""
        if isinstance(error, OSError | MemoryError):
            error = MachineError.from_error(error)
        cause = str(error) if isinstance(error, HeadwaterError) else f"{type(error).__name__}: {error}"
        if cause not in self._told:
            self._told.add(cause)
            self._observer.on(UpkeepFailed(self._application, "clean", cause))


class LogCleaning:
    """The cleaning of a running application's topics. Used from the loop's thread, as a context: rounds end with it.

    `topologies`: those of the run. `seconds`: a clock that never goes back.
    """

    def __init__(
        self,
        topology: Topology,
        settings: Settings,
        log: Log,
        state: LogState,
        commits: EpochCommits,
        observer: Observer,
        topologies: Sequence[Topology] = (),
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._log = log
        self._state = state
        self._commits = commits
        self._seconds = seconds
        policies = policies_of(topology, settings.delete_retention_ms)
        self._cleaner = Cleaner(log, policies, LIMITS, topologies)
        self._cleanings = Cleanings(topology.application, (topology, *topologies), log, observer)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"{topology.application}-cleaner")
        self._ending = threading.Event()
        self._working: Future[Cleaned] | None = None
        self._begun = 0.0
        self._due = seconds() + settings.clean_interval_ms / 1000

    def advance(self) -> None:
        """Commit what a round has come to, or begin with the next one if the time has come. Raises FencedError."""
        if self._working is not None:
            if self._working.done():
                self._commit()
        elif self._settings.clean and self._seconds() >= self._due:
            self._begin()

    def finish(self, stop: threading.Event) -> None:
        """Do what is due at the end of a run that is caught up, unless `stop` is set meanwhile. Raises FencedError.

        Short runs are over before it is time for a round. One round only: the next run goes on.
        """
        if not self._settings.clean:
            return
        if self._working is None:
            self._begin()
        while self._working is not None and not self._working.done():
            if stop.wait(WAIT_SECONDS):
                return
        self._commit()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._pool.shutdown()
        working, self._working = self._working, None
        if working is not None and working.exception() is None:
            for path in working.result().files:
                with suppress(
                    OSError, HeadwaterError
                ):  # it is garbage once the next driver has claimed the application
                    self._log.remove(path)

    def _begin(self) -> None:
        self._begun = self._seconds()
        self._working = self._pool.submit(self._cleaner.round, self._state, lambda: not self._ending.is_set())

    def _commit(self) -> None:
        """Take up a round that has ended. Raises FencedError."""
        working, self._working = self._working, None
        assert working is not None
        self._due = self._seconds() + self._settings.clean_interval_ms / 1000
        try:
            cleaned = working.result()
        except Exception as error:  # whatever it is: the epochs do not depend on it
            self._cleanings.failed(error)
            return
        committed = commit_cleaned(cleaned, self._log, self._state, self._commits.rewrite)
        self._cleanings.done(cleaned, len(committed), self._seconds() - self._begun)
        if cleaned.more and committed:
            self._due = self._seconds()


class FedTopicsCleaning:
    """The cleaning of what is fed from outside, in a thread of its own while a run goes on. Used as a context.

    Each run does it for the topics that its topologies read. Several at once are no harm: one of them is first.
    """

    def __init__(self, topologies: Sequence[Topology], settings: Settings, log: Log, observer: Observer) -> None:
        self._application = f"{topologies[0].project}-seed" if topologies else ""
        self._log = log
        self._interval = settings.clean_interval_ms / 1000
        self._cleaner = Cleaner(log, policies_of_fed(topologies), LIMITS, topologies)
        self._cleanings = Cleanings(self._application, topologies, log, observer)
        self._grace = settings.file_delete_delay_ms / 1000
        self._state: LogState | None = None
        self._removal: FileRemoval
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"{self._application}-cleaner", daemon=True)
        self._wanted = settings.clean and bool(topologies)

    def __enter__(self) -> Self:
        if self._wanted:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def finish(self, stop: threading.Event) -> None:
        """Do what is due at the end of a run that is caught up, unless `stop` is set meanwhile."""
        self._end()
        if self._wanted and not stop.is_set():
            self._round(lambda: not stop.is_set())

    def _end(self) -> None:
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        wait = self._interval
        while not self._ending.wait(wait):
            wait = 0.0 if self._round(lambda: not self._ending.is_set()) else self._interval

    def _round(self, may_go_on: Callable[[], bool]) -> bool:
        """Do a round. Returns whether there is more to do."""
        begun = time.monotonic()
        try:
            if self._state is None:
                if self._application not in self._log.applications():
                    return False
                self._state = LogState.load(self._log.commits(self._application))
                self._removal = FileRemoval(self._log, self._state, self._grace)
            cleaned, committed = clean_round(self._cleaner, self._log, self._state, may_go_on, self._removal.delay_ms)
            if committed:
                self._removal.later(self._state.replaced)
            self._removal.advance()
        except CleaningStoppedError:
            return False
        except Exception as error:  # whatever it is: nothing depends on it
            if isinstance(error, FullyRefreshedError):
                self._state = None
            else:
                self._cleanings.failed(error)
            return False
        self._cleanings.done(cleaned, len(committed), time.monotonic() - begun)
        return cleaned.more and bool(committed)
