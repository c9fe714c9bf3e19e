"""Asks a plugin's restore strategy, and says whose mistake it is if its answer is of no use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from ....plugins.errors import PluginError, is_of_the_machine, told
from ...state.restore_strategy import Apply, Load, RestoreRequest, RestoreStrategy, Save, SavingStrategy, Step, Unsaved

Found = TypeVar("Found")


class RestoreStrategyError(PluginError):
    """A restore strategy raised, or gave what cannot be done. `name`: the strategy's, `method`, `cause`."""

    def __init__(self, name: str, method: str, cause: str) -> None:
        super().__init__(
            f"the restore strategy {name!r} fails in `{method}`: {cause}",
            "correct it, or take another one; nothing that was committed is lost",
        )
        self.name = name
        self.method = method
        self.cause = cause


class CheckedStrategy:
    """A RestoreStrategy that gives the first step of another one. Raises RestoreStrategyError."""

    def __init__(self, name: str, strategy: RestoreStrategy) -> None:
        self.name = name
        self._strategy = strategy

    def steps(self, request: RestoreRequest) -> Iterator[Step]:
        """The first one, if there is one. That it brings the store nearer to its target is seen when it is done."""
        step: object = self._asked("steps", lambda: next(iter(self._strategy.steps(request)), None))
        cause = "which is neither a Load nor an Apply"
        match step:
            case None:
                return
            case Load(snapshot) if snapshot in request.snapshots:
                yield step
                return
            case Apply(int(), int(records)) if records > 0:
                yield step
                return
            case Load():
                cause = "which loads a snapshot that is not in the request"
            case Apply():
                cause = "which applies no records"
        store = f"store {request.store}, partition {request.partition}"
        raise RestoreStrategyError(self.name, "steps", f"it gives {step!r} for {store}, {cause}")

    def _asked(self, method: str, ask: Callable[[], Found]) -> Found:
        try:
            return ask()
        except BaseException as error:
            if is_of_the_machine(error):
                raise
            raise RestoreStrategyError(self.name, method, told(error)) from error


class CheckedSavingStrategy(CheckedStrategy):
    """The same for a SavingStrategy."""

    def __init__(self, name: str, strategy: SavingStrategy) -> None:
        super().__init__(name, strategy)
        self._saving = strategy

    def save(self, unsaved: Unsaved) -> Save | None:
        """What the other one says."""
        found = self._asked("save", lambda: self._saving.save(unsaved))
        if found is None or (isinstance(found, Save) and isinstance(found.keep, int) and found.keep > 0):
            return found
        cause = f"it gives {found!r}, which is neither None nor a Save that keeps one or more"
        raise RestoreStrategyError(self.name, "save", cause)


def checked(name: str, strategy: RestoreStrategy) -> CheckedStrategy:
    """A strategy whose answers are checked."""
    if isinstance(strategy, SavingStrategy):
        return CheckedSavingStrategy(name, strategy)
    return CheckedStrategy(name, strategy)
