"""Checks `was`: a former name is nobody's name now, and one thing's only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..diagnostics import Diagnostics
from ..model.project import ProjectModel, TopologyModel
from ..reading.nodes import Scalar

Named = tuple[Scalar, tuple[Scalar, ...]]
"""A name, and the names before it."""


def check_former_names(model: ProjectModel, diagnostics: Diagnostics) -> None:
    """Check the former names of all that may have some."""
    topologies = model.topologies.values()
    _check("topology", ((each.name, each.was) for each in topologies), diagnostics)
    for topology in topologies:
        for kind, named in named_in(topology).items():
            _check(kind, named, diagnostics)


def named_in(topology: TopologyModel) -> dict[str, list[Named]]:
    """What has a name in a topology, by kind, each with the names before it."""
    steps = (step for flow in topology.flows.values() for step in flow.steps)
    return {
        "store": [(each.name, each.was) for each in topology.stores.values()],
        "table": [(each.name, each.was) for each in topology.tables.values()],
        "flow": [(each.name, each.was) for each in topology.flows.values()],
        "step": [(each.name, each.was) for each in steps if each.name is not None],
    }


def _check(kind: str, named: Iterable[Named], diagnostics: Diagnostics) -> None:
    """Check those of one kind, of which no two have one name."""
    known = {name.text: (name, was) for name, was in named}
    taken: dict[str, Scalar] = {}
    for name, was in known.values():
        for former in was:
            if former.text == name.text:
                message = f"The {kind} '{name.text}' cannot have been '{name.text}' before: that is its name."
                diagnostics.add("HW740", former.position, message, "Remove it.")
            elif former.text in known:
                _in_use(kind, former, known, diagnostics)
            elif (first := taken.setdefault(former.text, name)) is not name:
                message = f"Both '{first.text}' and '{name.text}' are said to have been the {kind} '{former.text}'."
                diagnostics.add("HW741", former.position, message, "Leave it at the one that goes on.")


def _in_use(kind: str, former: Scalar, known: Mapping[str, Named], diagnostics: Diagnostics) -> None:
    at = known[former.text][0].position
    message = f"There is a {kind} '{former.text}' now: {at.file}, line {at.line}."
    hint = f"Remove the name here if that {kind} is another one; else remove that {kind}."
    diagnostics.add("HW740", former.position, message, hint)
