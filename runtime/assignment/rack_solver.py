"""Access to OR-Tools, the solver of placements by racks. OR-Tools is large and rarely needed, so it is an extra."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import HeadwaterError

if TYPE_CHECKING:
    from ortools.graph.python.min_cost_flow import SimpleMinCostFlow

WAY_OUT = "pip install 'headwater[racks]'"
"""The command that installs OR-Tools."""


class SolverMissingError(HeadwaterError):
    """An assignor has to place tasks by racks, and OR-Tools is not installed."""

    def __init__(self) -> None:
        super().__init__("placing tasks by racks needs OR-Tools, which is not installed", WAY_OUT)


def new_solver() -> SimpleMinCostFlow:
    """A new solver. The first one takes a tenth of a second. Raises SolverMissingError."""
    try:
        from ortools.graph.python.min_cost_flow import SimpleMinCostFlow
    except ImportError as error:
        raise SolverMissingError from error
    return SimpleMinCostFlow()


def has_solver() -> bool:
    """Whether OR-Tools is installed."""
    try:
        new_solver()
    except SolverMissingError:
        return False
    return True


def uses_solver(assignor: str, strategy: str, traffic_cost: int | None, non_overlap_cost: int | None) -> bool:
    """Whether a built-in assignor needs the solver under this `rack_aware` section. False for any other assignor."""
    if strategy == "none":
        return False
    if assignor == "sticky":
        return traffic_cost is not None and non_overlap_cost is not None
    return assignor == "high_availability"
