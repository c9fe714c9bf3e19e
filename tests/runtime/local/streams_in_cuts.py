"""Random streams in the cuts in which tests have them processed.

Hundreds of epochs of one record take longer than all the rest, and those of seven take most of that: `make test` has
each cut of one stream, and all streams uncut.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from headwater.tests.runtime.local.local_application import WHOLE
from headwater.tests.sampled import chosen

MOST = (1, 7, WHOLE)
"""Most records of an epoch."""


def streams_in_cuts(streams: int) -> list[Any]:
    """(Number of a stream, most records of an epoch)."""
    return chosen(_every(streams), _some(streams))


def kinds_in_cuts(kinds: Sequence[Any], streams: int, singly: Container[Any]) -> list[Any]:
    """(Kind, number of a stream, most records of an epoch). `singly`: kinds that `make test` has in epochs of one."""
    every = [(kind, *cut) for kind in kinds for cut in _every(streams)]
    some = [(kind, *cut) for kind in kinds for cut in _some(streams) if cut[1] > 1 or kind in singly]
    return chosen(every, some)


def _every(streams: int) -> list[tuple[int, int]]:
    return [(stream, most) for stream in range(streams) for most in MOST]


def _some(streams: int) -> list[tuple[int, int]]:
    return [(0, 1), (1, 7), *((stream, WHOLE) for stream in range(streams))]
