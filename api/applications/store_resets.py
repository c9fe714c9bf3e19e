"""Stores that the next run computes again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ...compiler.selectors import SelectorError
from ...errors import HeadwaterError
from ...runtime.changes.plans.store_reset import StoreReset, read_again
from ...runtime.log.state import LogState
from ...runtime.progress.committed import Committed
from ...runtime.progress.resets.store_resets import ask_for_reset, withdraw_reset
from ...runtime.topology import Topology
from ...suggestions import guess
from ..arguments import check_name, check_names
from ..selection import Selection
from ..target import Target
from .plans import Plans
from .running import refuse_recomputing


class NoStoreToResetError(HeadwaterError):
    """A topology has no store of this name that could be computed again: `topology`, `store`."""

    exit_code = 2

    def __init__(self, topology: str, store: str, what: str, hint: str) -> None:
        super().__init__(what, hint)
        self.topology = topology
        self.store = store


class StoreResets:
    """Plans resets of stores, and asks for them. Nothing is computed here."""

    def __init__(self, selection: Selection, target: Target, plans: Plans) -> None:
        self._selection = selection
        self._target = target
        self._plans = plans

    def plan(self, topology: str, stores: Sequence[str], *, withdraw: bool) -> StoreReset:
        """See `Project.plan_store_reset`."""
        check_name("topology", topology)
        check_names("stores", stores)
        chosen, log = self._topology(topology), self._target.log_to_read()
        wanted, application = tuple(dict.fromkeys(stores)), chosen.application
        own = Committed(log, chosen).own
        for each in wanted:
            _check(chosen, self._plans.topologies(), own, each)
        asked = tuple(each for each in wanted if each in own.resets)
        found = StoreReset(chosen, wanted, asked, own.incarnation, withdraw)
        refuse_recomputing(log, application)
        if withdraw:
            return found
        plan = self._plans.plan_with_resets({application: wanted})
        return replace(found, reads=read_again(plan, self._plans.topologies(), chosen, wanted), space=plan.space)

    def reset(self, planned: StoreReset) -> None:
        """See `Project.reset_store`."""
        log = self._target.log_to_read()
        refuse_recomputing(log, planned.application)
        change = withdraw_reset if planned.withdraw else ask_for_reset
        change(log, planned.topology, planned.incarnation, planned.stores)

    def _topology(self, word: str) -> Topology:
        """The one topology that a selector names."""
        names = self._selection.named([word])
        if len(names) > 1:
            raise SelectorError(word, f"{word!r} selects {', '.join(names)}", "name one topology")
        if names[0] not in self._selection.topologies():
            raise SelectorError(word, f"topology {names[0]} is not selected", "select it too")
        found = next((each for each in self._plans.topologies() if each.name == names[0]), None)
        if found is None:
            what = f"topology {names[0]} has expressions that Spark has not judged yet"
            raise NoStoreToResetError(names[0], "", what, "`headwater compile` has them judged")
        return found


def _check(topology: Topology, others: Collection[Topology], own: LogState, name: str) -> None:
    """Raises NoStoreToResetError. `own`: what the topology's application has committed."""
    declared = _stores(topology)
    if name in declared and name in own.topology.stores and own.tasks.consumed:
        return
    owner = next((each.name for each in others if name in _stores(each)), None)
    if name in declared:
        what = f"store {name} of {topology.application} has no rows yet, so there is nothing to compute again"
        hint = "`headwater run` fills it"
    elif name in {each for table in topology.global_tables for each in (table.name, table.store.name)}:
        what = f"{name} is a global table: each client has a copy of all rows of its topic, and computes none"
        hint = "`headwater clean --state` removes the copies; the next run loads them again"
    elif name in own.topology.stores:
        what = f"nothing in topology {topology.name} fills store {name} any more, so its rows cannot be computed again"
        hint = (
            "put back what has filled it, and reset it then; if it has another name now, say so with `was`; "
            "`headwater plan` says what becomes of the rows that it has"
        )
    elif owner is not None:
        what, hint = f"store {name} is not in topology {topology.name}", f"`headwater reset {owner} --store {name}`"
    else:
        what = f"topology {topology.name} has no store {name!r}"
        hint = guess(name, declared, f"it has {', '.join(declared)}" if declared else "it has no stores at all")
    raise NoStoreToResetError(topology.name, name, what, hint)


def _stores(topology: Topology) -> list[str]:
    return [store.name for part in topology.subtopologies for store in part.stores]
