"""Which cases of a rule `make test` runs, and which ones only `make soak` does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def sampled(cases: Iterable[Any], every: int) -> list[Any]:
    """Parameters of a test: the first case and each `every`-th one after it are for `make test`, the others for soak.

    A tuple is a case of several parameters. Where several loops make the cases, `every` should not divide the length
    of the inner one: then each value of both loops occurs.
    """
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=[pytest.mark.soak] if turn % every else [])
        for turn, case in enumerate(cases)
    ]
