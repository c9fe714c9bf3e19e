"""Values that a profile takes from the environment: looked up when a job runs, so that no file has to hold them."""

from __future__ import annotations

import os

from ..errors import HeadwaterError


class EnvironmentVariableError(HeadwaterError):
    """A variable that a profile names is not set where the job runs: `name`; `at`, the profile's `file:line`."""

    def __init__(self, name: str, at: str) -> None:
        super().__init__(
            f"{at}: the environment variable {name} is not set", "set it where the job runs, or give a default"
        )
        self.name = name
        self.at = at


def env_var(name: str, default: str | None = None, *, at: str) -> str:
    """The value of an environment variable, or `default`. Raises EnvironmentVariableError when there is neither."""
    value = os.environ.get(name, default)
    if value is None:
        raise EnvironmentVariableError(name, at)
    return value
