"""What a run finds changed at its start: which applications it refuses, and whose results it computes again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from ....errors import HeadwaterError
from ...changes.recompute.judging import Judged, judge
from ...chosen_plugins import log_of
from ...progress.committed import Committed
from ...topology import Settings, Topology


def judged_start(
    topologies: Sequence[Topology],
    settings: Settings,
    owned: Collection[str] | None = None,
    staying: Mapping[str, HeadwaterError] | None = None,
) -> Judged:
    """What has changed about the applications of a run. Nothing is said of those whose commits cannot be read: their
    own start tells why. `owned`: the applications of the project's topologies, None if they are not known. `staying`:
    see `judge`.
    """
    committed: dict[str, Committed] = {}
    for topology in topologies:
        with suppress(HeadwaterError, OSError):
            committed[topology.application] = Committed(log_of(settings), topology)
    with suppress(HeadwaterError, OSError):
        return judge(log_of(settings), topologies, committed, owned, go_on=settings.go_on, staying=staying)
    return Judged()
