"""Environment variables: Headwater's own, and the values of a profile that come from them.

The latter are looked up when a job runs, so no file contains them.
"""

from __future__ import annotations

import os

from ..errors import HeadwaterError
from ..hidden_values import hidden_value
from .durations import parse_duration

PREFIX = "HEADWATER_"
PROJECT_DIR = f"{PREFIX}PROJECT_DIR"
SPARK_LOG = f"{PREFIX}SPARK_LOG"
"""The level of Spark's own log (`WARN`, `INFO`). Without it the log is off."""
OWN_VARIABLES = (PROJECT_DIR, SPARK_LOG)
"""The environment variables that Headwater itself reads."""


class LookedUp(str):
    """A text that comes from the environment, at least in part. It may be a secret and is never shown."""

    def __add__(self, other: str) -> LookedUp:
        return LookedUp(str.__add__(self, other))

    def __radd__(self, other: str) -> LookedUp:
        return LookedUp(str.__add__(other, self))


class EnvironmentVariableError(HeadwaterError):
    """A variable that a profile names is not set where the job runs. `name`; `at`: the profile's `file:line`."""

    def __init__(self, name: str, at: str) -> None:
        super().__init__(
            f"{at}: the environment variable {name} is not set", "set it where the job runs, or give a default"
        )
        self.name = name
        self.at = at


class EnvironmentValueError(HeadwaterError):
    """A value from the environment has the wrong form. It is not shown. `at`: the `file:line`."""

    def __init__(self, needed: str, at: str) -> None:
        super().__init__(
            f"{at}: what the environment gives is not {needed}", "set the variable that this line names to one"
        )
        self.needed = needed
        self.at = at


def env_var(name: str, default: str | None = None, *, at: str) -> LookedUp:
    """The value of an environment variable, or `default`. Raises EnvironmentVariableError if there is neither."""
    value = os.environ.get(name, default)
    if value is None:
        raise EnvironmentVariableError(name, at)
    if name in os.environ:
        hidden_value(value, at)
    return LookedUp(value)


def whole_number(text: str, *, at: str) -> int:
    """A number from the environment. Raises EnvironmentValueError."""
    try:
        return int(text)
    except ValueError:
        raise EnvironmentValueError("a whole number", at) from None  # the message of ValueError would show the value


def duration(text: str, *, at: str) -> int:
    """The milliseconds of a duration from the environment. Raises EnvironmentValueError."""
    try:
        return parse_duration(text)
    except ValueError:
        raise EnvironmentValueError("a duration such as 500ms, 10s or 5m", at) from None
