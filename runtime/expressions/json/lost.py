"""How a value that cannot be read is told to what reads the values around it."""

from __future__ import annotations

from typing import Any


class LostError(Exception):
    """A value that cannot be read: its text is no JSON, or no value of the type."""


class PartlyError(Exception):
    """A value of which a part could not be read. `value`: what is there, null in place of that part."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value
