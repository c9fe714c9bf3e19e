"""The built-in assignor `fallback`, for when it is not known how far copies are behind.

Tasks stay where they were. The leader always asks for a follow-up, which may have lags.
"""

from __future__ import annotations

from .api.assignor import AssignmentError, TaskAssignment
from .api.cluster import ApplicationState
from .placement import followup
from .stickiness import StickyPlacing


class Fallback:
    """A TaskAssignor that keeps previously active tasks whatever the balance, and needs no lags."""

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        """Keep tasks where they were and place the others. Raises NoClientsError."""
        tasks, configs = application_state.all_tasks, application_state.assignment_configs
        clients = application_state.client_states(compute_task_lags=False)
        placing = StickyPlacing(tasks, clients, preserve=True, threads_first=True)
        placing.place_actives()
        changelogged = [number for number, task in enumerate(placing.placement.tasks) if tasks[task].is_changelogged]
        placing.place_standbys(changelogged, configs.num_standby_replicas)
        return placing.placement.to_assignment(followup(application_state))

    def on_assignment_computed(self, assignment: TaskAssignment, error: AssignmentError) -> None:
        """Nothing to remember."""
