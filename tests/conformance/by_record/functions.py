"""Functions of a project, and the same as aggregates of single steps."""

from __future__ import annotations

from typing import Any

from conformance.by_record.nodes import Key, Value

FUNCTIONS = """
class Capped:
    def initial(self):
        return {"every": []}

    def add(self, state, key, value):
        every = [*state.every, value.v]
        return None if len(every) > 3 else {"every": every}


class Joined:
    def initial(self):
        return {"every": []}

    def add(self, state, key, value):
        return {"every": [*state.every, value.v]}

    def merge(self, first, second):
        return {"every": [*first.every, *second.every]}


def greater(old, new):
    return new if (new.v or 0) >= (old.v or 0) else old
"""


class Capped:
    """The values, and no row once there are more than `most`: `Capped`, and `Joined` where there is no such limit."""

    def __init__(self, most: int) -> None:
        self._most = most

    def initial(self) -> tuple[Any, ...]:
        """No values."""
        return ()

    def add(self, state: tuple[Any, ...], key: Key, value: Value) -> tuple[Any, ...]:
        """One value more."""
        made = (*state, value and value["v"])
        return () if len(made) > self._most else made

    def merge(self, first: tuple[Any, ...], second: tuple[Any, ...]) -> tuple[Any, ...]:
        """Those of the first one, then those of the second one."""
        return (*first, *second)

    def row(self, state: tuple[Any, ...]) -> Value:
        """None without values."""
        return {"every": list(state)} if state else None


class Greatest:
    """`greater`: the value that counts most, of equal ones the later one."""

    def initial(self) -> Any:
        """No value yet."""
        return None

    def add(self, state: Any, key: Key, value: Value) -> Any:
        """A null value is one whose columns are null."""
        return self.merge(state, value or {"v": None, "g": None})

    def merge(self, first: Any, second: Any) -> Any:
        """The greater one."""
        return second if first is None or (second["v"] or 0) >= (first["v"] or 0) else first

    def row(self, state: Any) -> Value:
        """The value itself."""
        return state  # type: ignore[no-any-return]
