"""Topics whose records were put into other partitions since an application has read them: positions of that time are
none in what is there now.
"""

from __future__ import annotations

from .committed import Committed
from .errors import TopicRepartitionedError


def repartitioned_since(committed: Committed) -> frozenset[str]:
    """The topics, as of the application's last claim."""
    fed = committed.states[committed.seeds].topics
    used = committed.own.topology.topics.items()
    return frozenset(
        name for name, each in used if each.writer is None and name in fed and fed[name].was_moved(each.since)
    )


def check_not_repartitioned(committed: Committed, *, only_read: bool = False) -> None:
    """Check that what an application has claimed still lies as it did then. `only_read`: only topics in which it has
    positions.

    Raises TopicRepartitionedError: ranges of now must not be read from positions of before.
    """
    for name in sorted(repartitioned_since(committed)):
        if only_read and not any(name in each.positions for each in committed.own.tasks.all()):
            continue
        now = committed.states[committed.seeds].topics[name]
        raise TopicRepartitionedError(committed.application, name, now.partitions, now.key)
