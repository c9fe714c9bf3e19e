"""Upkeep of the log in parallel to epochs: folding commits, removing files, cleaning segments."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from typing import Literal, Self

from ...errors import HeadwaterError, MachineError
from ..ir.topology import Settings, Topology
from ..log.cleaning.cleaner import Cleaned, Cleaner, CleaningStoppedError, clean_round, commit_cleaned
from ..log.cleaning.compaction import LIMITS
from ..log.cleaning.deletions import policies_of, policies_of_fed
from ..log.cleaning.readers import HeldBack, last_commit_at
from ..log.errors import FullyRefreshedError
from ..log.log import Log
from ..log.state import LogState
from ..log.state_parts.folded import Fold, fold_now
from ..timed_parts import wall_ms
from .client_events import LogCleaned, RecordsHeldBack, UpkeepFailed
from .epoch_plans import ClaimedApplication
from .events import Observer
from .removal import Epochs, FileRemoval
from .status import RunStatus

Work = Literal["fold", "remove"]

_PAUSE_SECONDS = 0.0002
"""The pause between two pieces of a snapshot: it lets other threads run, which Python switches only every 5 ms."""


class Upkeep(AbstractContextManager["Upkeep"]):
    """Saves snapshots of the log's state, folds old commits, and removes unused files, in a thread of its own.

    All of it may fail, with a full disk or without a permission. Then the log takes more space than it needs. The run
    reports it and continues, and the work is tried again. Used from the loop's thread as a context; its end waits for
    work that has started.
    """

    def __init__(self, state: LogState, removal: FileRemoval, observer: Observer) -> None:
        self._state = state
        self._observer = observer
        self._removal = removal
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"{state.application}-upkeep")
        self._working: dict[Work, Future[None]] = {}
        self._ended: list[tuple[Work, Future[None]]] = []
        self._failed: dict[Work, str] = {}
        state.folding = self._fold

    def __exit__(self, *_: object) -> None:
        last = self._pool.submit(self._removal.remove)
        self._pool.shutdown()
        self._state.folding = fold_now
        self._tell()
        self._working["remove"] = last
        self._tell()

    def advance(self, epochs: Epochs) -> None:
        """Start due work, and report failures. The state must have the commits of all decided epochs."""
        self._tell()
        if "remove" not in self._working and self._removal.due():
            self._working["remove"] = self._pool.submit(self._removal.advance, epochs)

    def _fold(self, fold: Fold) -> None:
        """Start a fold, unless one is running: the next one includes its commits.

        It is called in the middle of a commit, so it raises and reports nothing.
        """
        before = self._working.get("fold")
        if before is not None and not before.done():
            return
        if before is not None:
            self._ended.append(("fold", before))
        self._working["fold"] = self._pool.submit(fold.run, lambda: time.sleep(_PAUSE_SECONDS))

    def _tell(self) -> None:
        ended, self._ended = self._ended, []
        for work, future in [item for item in self._working.items() if item[1].done()]:
            del self._working[work]
            ended.append((work, future))
        for work, future in ended:
            cause = _cause(future)
            if cause and cause != self._failed.get(work):
                self._observer.on(UpkeepFailed(self._state.application, work, cause))
            self._failed[work] = cause


def _cause(future: Future[None]) -> str:
    """The cause of a failure of the machine or the log; empty if there was none. Raises other errors."""
    try:
        future.result()
    except FullyRefreshedError:
        return ""  # the loop detects it, and ends
    except HeadwaterError as error:
        return str(error)
    except (OSError, MemoryError) as error:
        return str(MachineError.from_error(error))
    return ""


# Log cleaning while applications run: in a thread of its own, with commits between epochs.
#
# Source: Kafka's `LogCleaner`, with its `log.cleaner.backoff.ms`. There brokers clean. Here the driver of an
# application does, as only it commits for the application; external topics have no driver, and every run cleans them. A
# round reads and writes in parallel to epochs, its commit takes a few milliseconds. A failure costs only space: it is
# reported, and tried again.

WAIT_SECONDS = 0.005
"""How long the end of a run sleeps at most between two checks whether its last round is done."""


class CleaningReports:
    """Reports rounds of cleaning to the observer, a lasting failure once. `topologies`: of the run."""

    def __init__(self, application: str, topologies: Iterable[Topology], log: Log, observer: Observer) -> None:
        self._application = application
        self._running = {topology.application for topology in topologies}
        self._log = log
        self._observer = observer
        self._reported: set[str] = set()
        self._held: set[tuple[str, str]] = set()

    def done(self, cleaned: Cleaned, segments: int, seconds: float) -> None:
        """Report a committed round. `segments`: number of segments that have replaced others; `seconds`: duration."""
        for held in cleaned.held:
            if held.reader not in self._running and (held.topic, held.reader) not in self._held:
                with suppress(HeadwaterError, OSError):  # the next round tries again
                    self._report_held(held)
        for damage in cleaned.damage:
            self.failed(damage)
        if segments:
            self._observer.on(LogCleaned(self._application, cleaned.read, segments, seconds))
        elif not cleaned.damage:
            self._reported.clear()

    def _report_held(self, held: HeldBack) -> None:
        """Report the reader for which records are kept, unless another run is at work for it."""
        text = self._log.read_status(held.reader)
        status = None if text is None else RunStatus.from_text(held.reader, text)
        if status is None or status.condition(wall_ms()) != "running":
            self._held.add((held.topic, held.reader))
            since = last_commit_at(self._log, held.reader)
            self._observer.on(RecordsHeldBack(self._application, held.topic, held.reader, held.records, since))

    def failed(self, error: Exception) -> None:
        """Report a round that has failed, or a file that it could not read."""
        if isinstance(error, OSError | MemoryError):
            error = MachineError.from_error(error)
        cause = str(error) if isinstance(error, HeadwaterError) else f"{type(error).__name__}: {error}"
        if cause not in self._reported:
            self._reported.add(cause)
            self._observer.on(UpkeepFailed(self._application, "clean", cause))


class LogCleaning(AbstractContextManager["LogCleaning"]):
    """Cleans the topics of a running application. Used from the loop's thread as a context, whose end ends its rounds.

    `topologies`: of the run.
    """

    def __init__(self, app: ClaimedApplication, observer: Observer, topologies: Sequence[Topology] = ()) -> None:
        self._settings = settings = app.settings
        self._log = log = app.committed.log
        self._state = app.committed.own
        self._commits = app.commits
        policies = policies_of(app.topology, settings.delete_retention_ms)
        self._cleaner = Cleaner(log, policies, LIMITS, topologies)
        self._reports = CleaningReports(app.name, (app.topology, *topologies), log, observer)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"{app.name}-cleaner")
        self._ending = threading.Event()
        self._working: Future[Cleaned] | None = None
        self._begun = 0.0
        self._due = time.monotonic() + settings.clean_interval_ms / 1000

    def advance(self) -> None:
        """Commit a finished round, or start the next one if it is due. Raises FencedError."""
        if self._working is not None:
            if self._working.done():
                self._commit()
        elif self._settings.clean and time.monotonic() >= self._due:
            self._begin()

    def finish(self, stop: threading.Event) -> None:
        """Do one round at the end of a run that is caught up, unless `stop` is set meanwhile. Raises FencedError.

        Short runs end before a round is due. The next run does the next round.
        """
        if not self._settings.clean:
            return
        if self._working is None:
            self._begin()
        while self._working is not None and not self._working.done():
            if stop.wait(WAIT_SECONDS):
                return
        self._commit()

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._pool.shutdown()
        working, self._working = self._working, None
        if working is not None and working.exception() is None:
            for path in working.result().files:
                with suppress(OSError, HeadwaterError):  # the next driver removes unlisted files
                    self._log.remove(path)

    def _begin(self) -> None:
        self._begun = time.monotonic()
        self._working = self._pool.submit(self._cleaner.round, self._state, lambda: not self._ending.is_set())

    def _commit(self) -> None:
        """Commit a finished round. Raises FencedError."""
        working, self._working = self._working, None
        assert working is not None
        self._due = time.monotonic() + self._settings.clean_interval_ms / 1000
        try:
            cleaned = working.result()
        except Exception as error:  # of any kind: epochs do not depend on it
            self._reports.failed(error)
            return
        committed = commit_cleaned(cleaned, self._log, self._state, self._commits.rewrite)
        self._reports.done(cleaned, len(committed), time.monotonic() - self._begun)
        if cleaned.more and committed:
            self._due = time.monotonic()


class ExternalTopicsCleaning:
    """Cleans the external topics that the topologies of a run read, in a thread of its own. Used as a context.

    Several runs may do so at once: the commit of one of them wins.
    """

    def __init__(self, topologies: Sequence[Topology], settings: Settings, log: Log, observer: Observer) -> None:
        self._application = f"{topologies[0].project}-seed" if topologies else ""
        self._log = log
        self._interval = settings.clean_interval_ms / 1000
        self._cleaner = Cleaner(log, policies_of_fed(topologies), LIMITS, topologies)
        self._reports = CleaningReports(self._application, topologies, log, observer)
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

    def __exit__(self, *_: object) -> None:
        self._end()

    def finish(self, stop: threading.Event) -> None:
        """Do one round at the end of a run that is caught up, unless `stop` is set meanwhile."""
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
        """Do one round. Whether there is more to do."""
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
        except Exception as error:  # of any kind: nothing depends on it
            if isinstance(error, FullyRefreshedError):
                self._state = None
            else:
                self._reports.failed(error)
            return False
        self._reports.done(cleaned, len(committed), time.monotonic() - begun)
        return cleaned.more and bool(committed)
