"""Random streams in the cuts in which tests have them processed."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.tests.runtime.local.local_application import WHOLE


def streams_in_cuts(streams: int) -> list[Any]:
    """(Number of a stream, most records of an epoch): epochs of 1 record, of 7, and of all that is there.

    Hundreds of epochs of one record take longer than all the rest. `make test` has them of the first stream, `make
    soak` of the others.
    """
    first = [(0, 1), *((stream, most) for stream in range(streams) for most in (7, WHOLE))]
    return [*first, *(pytest.param(stream, 1, marks=pytest.mark.soak) for stream in range(1, streams))]
