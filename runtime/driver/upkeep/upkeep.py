"""What a driver does beside the epochs, in a thread of its own: keeps snapshots of the log's state, folds old commits,
removes superfluous files.

All of it may fail, for a full disk or a missing right. Then the log takes more space than it needs. The run says so and
goes on, and it is tried again.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Literal, Self

from ....errors import HeadwaterError, MachineError
from ...log.errors import FullyRefreshedError
from ...log.state import LogState
from ...log.state_parts.folding import Fold, fold_now
from ..reports.events import Observer, UpkeepFailed
from .removal import Epochs, FileRemoval

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
        return str(MachineError.of(error))
    return ""
