"""Functions of rows, and a class that aggregates."""

from __future__ import annotations

from typing import Any

from .words import SEEN


def spoken(page: str | None, n: int | None) -> str | None:
    """A view in words; None of a click without one."""
    return None if page is None else f"{page} {SEEN} {n}"


def larger(old: Any, new: Any) -> Any:
    """The view with the larger number."""
    return new if (new.n or 0) > (old.n or 0) else old


class Pages:
    """The last pages of a visitor, and the sum of their numbers."""

    def initial(self) -> dict[str, Any]:
        return {"pages": [], "n": 0}

    def add(self, state: Any, key: Any, value: Any) -> dict[str, Any]:
        return {"pages": [*state.pages, value.page][-3:], "n": state.n + (value.n or 0)}
