"""Describes an error that an assignor raised, with the line of its own code: a project may bring its own assignor."""

from __future__ import annotations

from pathlib import Path
from traceback import extract_tb

from ....errors import HeadwaterError
from ....plugins.errors import named

_RUNTIME = Path(__file__).parents[1]


class AssignorRaisedError(HeadwaterError):
    """An assignor raised an error, which is chained. `assignor`: its name."""

    def __init__(self, assignor: str, application: str, error: Exception) -> None:
        super().__init__(
            f"assignor {assignor} raised {raised_at(error)} when it was to place the tasks of {application}",
            "fix that line; a run would leave tasks where they were and spread new ones evenly",
        )
        self.assignor = assignor
        self.application = application


def raised_at(error: Exception) -> str:
    """The error and the last line outside this package.

    A line inside the package would tell the assignor's author little.
    """
    own = [each for each in extract_tb(error.__traceback__) if not Path(each.filename).is_relative_to(_RUNTIME)]
    return named(error) + (f" ({own[-1].filename}:{own[-1].lineno})" if own else "")
