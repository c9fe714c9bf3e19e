"""Environment variables that generated code reads, and the text format of durations."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ..errors import HeadwaterError
from ..hidden_values import hidden_value

# Durations in the syntax of the language: `10ms`, `5s`, `10m`, `1h`, `2d`.

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"([0-9]+)(ms|s|m|h|d)")
_MOST_DIGITS = {"ms": 15, "s": 12, "m": 10, "h": 8, "d": 7}
"""The maximum number of digits for each unit, as in the schemas.

A time plus a duration must fit into Spark's timestamps (int64 of microseconds).
"""


def parse_duration(text: str) -> int:
    """The milliseconds of a duration: one whole number and one unit. Raises ValueError for any other text."""
    found = _DURATION.fullmatch(text)
    if found is None or len(found[1]) > _MOST_DIGITS[found[2]]:
        raise ValueError(f"'{text}' is not a duration")
    return int(found[1]) * _UNITS_MS[found[2]]


def duration_text(milliseconds: int) -> str:
    """The text of a duration, in the largest unit without a fraction: the inverse of `parse_duration`."""
    if not milliseconds:
        return "0s"
    unit = next(unit for unit, size in reversed(_UNITS_MS.items()) if milliseconds % size == 0)
    return f"{milliseconds // _UNITS_MS[unit]}{unit}"


# Headwater's own environment variables, and those in a profile.
#
# The latter are read when a job runs, so no generated file contains their values.

PREFIX = "HEADWATER_"
PROJECT_DIR = f"{PREFIX}PROJECT_DIR"
SPARK_LOG = f"{PREFIX}SPARK_LOG"
"""The level of Spark's own logging (`WARN`, `INFO`). Off if not set."""
OWN_VARIABLES = (PROJECT_DIR, SPARK_LOG)
"""The environment variables that Headwater itself reads."""


class LookedUp(str):
    """A string with a part from the environment. It may be a secret, so it is never shown."""

    def __add__(self, other: str) -> LookedUp:
        return LookedUp(str.__add__(self, other))

    def __radd__(self, other: str) -> LookedUp:
        return LookedUp(str.__add__(other, self))


class EnvironmentVariableError(HeadwaterError):
    """A variable of a profile is not set where the job runs. `name`: the variable. `at`: `file:line` of the profile."""

    def __init__(self, name: str, at: str) -> None:
        super().__init__(
            f"{at}: the environment variable {name} is not set", "set it where the job runs, or give a default"
        )
        self.name = name
        self.at = at


class EnvironmentValueError(HeadwaterError):
    """A value from the environment has the wrong format. It is not shown. `at`: `file:line` of the profile."""

    def __init__(self, needed: str, at: str) -> None:
        super().__init__(
            f"{at}: what the environment gives is not {needed}", "set the variable that this line names to one"
        )
        self.needed = needed
        self.at = at


def env_var(name: str, default: str | None = None, *, at: str) -> LookedUp:
    """The value of an environment variable, or `default`. Raises EnvironmentVariableError if both are missing."""
    value = os.environ.get(name, default)
    if value is None:
        raise EnvironmentVariableError(name, at)
    if name in os.environ:
        hidden_value(value, at)
    return LookedUp(value)


class PemFileError(HeadwaterError):
    """A PEM file that a profile names cannot be read. `path`: the file."""

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(
            f"the PEM file {path} that profiles.yml names cannot be read: {cause}",
            "put it there, or give its text by an environment variable",
        )
        self.path = path


def pem_text(path: Path) -> LookedUp:
    """The text of a PEM file, which may be a private key. Raises PemFileError."""
    try:
        text = path.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise PemFileError(path, getattr(error, "strerror", None) or "it is no text") from None
    hidden_value(text)
    return LookedUp(text)


def whole_number(text: str, *, at: str) -> int:
    """An integer from the environment. Raises EnvironmentValueError."""
    try:
        return int(text)
    except ValueError:
        raise EnvironmentValueError("a whole number", at) from None  # the message of ValueError would show the value


def duration(text: str, *, at: str) -> int:
    """A duration from the environment, in milliseconds. Raises EnvironmentValueError."""
    try:
        return parse_duration(text)
    except ValueError:
        raise EnvironmentValueError("a duration such as 500ms, 10s or 5m", at) from None
