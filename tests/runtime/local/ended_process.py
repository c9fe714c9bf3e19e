"""A process that ends right before or right behind a commit, as far as a test in one process can show it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import pytest

from headwater.runtime.log.log import Log


class ProcessEnded(BaseException):
    """The process ends here. Nothing may catch it, as it is no Exception."""


@contextmanager
def ended_at_commit(log: Log, application: str, number: int, when: Literal["before", "after"]) -> Iterator[None]:
    """What is done within ends at this commit of an application; it fails if that commit is never made."""
    kind = type(log.commits("x"))
    create = kind.create

    def ended(self: Any, at: int, data: bytes) -> str:
        mine = (self.application, at) == (application, number)
        if mine and when == "before":
            raise ProcessEnded
        found = create(self, at, data)
        if mine:
            raise ProcessEnded
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kind, "create", ended)
        with pytest.raises(ProcessEnded):
            yield
