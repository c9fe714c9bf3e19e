"""Functions of a project, and the same as aggregates of single steps."""

from __future__ import annotations

from typing import Any

from headwater.tests.conformance.by_record.nodes import Key, Value

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


class Signed:
    def initial(self):
        return {"text": "0"}

    def add(self, state, key, value):
        return {"text": f"{state.text}+{value.v}"[-30:]}

    def subtract(self, state, key, value):
        return None if (value.v or 0) % 5 == 0 else {"text": f"{state.text}-{value.v}"[-30:]}


def greater(old, new):
    return new if (new.v or 0) >= (old.v or 0) else old


def until_seven(old, new):
    return None if (new.v or 0) % 7 == 0 else {"v": new.v, "g": (old.g or "") + (new.g or "")}
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


class Signed:
    """`Signed`: the text of a state, None for no row."""

    def initial(self) -> Any:
        """Before the first one."""
        return "0"

    def add(self, state: Any, key: Key, value: Any) -> Any:
        """With a row of the table."""
        return f"{state}+{value['v']}"[-30:]

    def subtract(self, state: Any, key: Key, value: Any) -> Any:
        """Without one."""
        return None if (value["v"] or 0) % 5 == 0 else f"{state}-{value['v']}"[-30:]

    def row(self, state: Any) -> Value:
        """It is its row."""
        return None if state is None else {"text": state}


class UntilSeven:
    """`until_seven`: the first value, and then what the function makes of it and of each other one."""

    def initial(self) -> Any:
        """No value yet."""
        return None

    def add(self, state: Any, key: Key, value: Any) -> Any:
        """The first value is not given to the function."""
        if state is None:
            return value
        return None if (value["v"] or 0) % 7 == 0 else {"v": value["v"], "g": (state["g"] or "") + (value["g"] or "")}

    def merge(self, first: Any, second: Any) -> Any:
        """Of no use: rows of sessions cannot be deleted."""
        raise NotImplementedError

    def row(self, state: Any) -> Value:
        """The value itself."""
        return state  # type: ignore[no-any-return]


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
