"""The root of every error that Headwater raises on purpose."""

from __future__ import annotations


class HeadwaterError(Exception):
    """An error a user can act on: what happened, and the way out.

    Only this class and its children are shown as a sentence; anything else is a bug and keeps its stack trace.
    """

    exit_code = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message} ({self.hint})"
