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
    return [case if turn % every == 0 else _for_soak(case) for turn, case in enumerate(cases)]


def chosen(cases: Iterable[Any], some: Iterable[Any]) -> list[Any]:
    """Parameters of a test: of all cases, `some` are for `make test`, the others for soak."""
    every, for_test = list(cases), list(some)
    assert all(case in every for case in for_test), for_test
    return [case if case in for_test else _for_soak(case) for case in every]


def _for_soak(case: Any) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.soak)
