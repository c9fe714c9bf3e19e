"""Folding: the state after a commit is kept as a snapshot, and commits that two snapshots make superfluous are removed.

The commits before the older of the two snapshots go. If the newest one is found to be damaged, the older one and the
commits after it still say everything.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from ....errors import HeadwaterError
from ..commits import CommitStore
from .snapshot import Snapshot

SNAPSHOT_EVERY = 100
"""The least number of commits between two snapshots."""

AT_MOST = 1000
"""After so many commits there is another snapshot, however much it takes. So a start reads no more of them."""


@dataclass(frozen=True)
class GoodSnapshot:
    """The newest snapshot that was read or written whole: after commit `number` of this `identity`. `size`: bytes."""

    number: int = 0
    identity: str = ""
    size: int = 0

    def due(self, commits: int, size: int) -> bool:
        """Whether to make another one after so many commits with so many bytes.

        The more a snapshot takes, the rarer it is: snapshots take hardly more to write than the commits themselves.
        """
        return commits >= SNAPSHOT_EVERY and (size >= self.size or commits >= AT_MOST)


@dataclass(frozen=True)
class Fold:
    """One folding. `snapshot`: the state after the commit of `identity`. `older`: the snapshot before it.

    `done` is told the new snapshot, once it is durable.
    """

    commits: CommitStore
    snapshot: Snapshot
    identity: str
    older: GoodSnapshot
    done: Callable[[GoodSnapshot], None]

    def run(self, between: Callable[[], object] = lambda: None) -> None:
        """Keep the snapshot, then remove what is superfluous. Raises LogError, MachineError, OSError.

        `between` is called about every millisecond, while the snapshot is encoded.
        """
        pieces = list[bytes]()
        for piece in self.snapshot.pieces():
            pieces.append(piece)
            between()
        data = b"".join(pieces)
        if self.commits.save_snapshot(self.snapshot.number, data, self.identity):
            self.done(GoodSnapshot(self.snapshot.number, self.identity, len(data)))
            if self.older.number:
                self.commits.fold(self.older.number, self.older.identity)


Folding = Callable[[Fold], None]
"""Runs foldings, now or in the background."""


def fold_now(fold: Fold) -> None:
    """Run it before the commit returns.

    If this fails, the commit is made nevertheless, and must not pass for one that is not. The next one tries again.
    """
    with suppress(OSError, HeadwaterError):
        fold.run()
