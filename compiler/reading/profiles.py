"""Reads profiles.yml and renders the chosen target only.

Another target, say the one for production, may read environment variables that nobody sets on a laptop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..diagnostics import Diagnostics, Position, did_you_mean
from .nodes import Entry, Mapping, Node, Scalar
from .render import withhold


@dataclass(frozen=True)
class Choice:
    """A profile's and a target's name, and where the profile was asked for; None where it has the project's name.

    The target's name is empty for the profile's own default; else `--target` asks for it.
    """

    profile: str
    target: str
    profile_at: Position | None = None


@dataclass(frozen=True)
class Chosen:
    """What profiles.yml gives: the tree, rendered as far as it is chosen, and the target's name."""

    tree: Node
    target_name: str


def choose(profiles: Node, choice: Choice, render: Callable[[Node], Node], diagnostics: Diagnostics) -> Chosen:
    """Render the chosen target with `render`; report a profile or target that is not there."""
    if not isinstance(profiles, Mapping):
        return Chosen(profiles, choice.target)
    profile = profiles.get(choice.profile)
    if profile is None:
        at = choice.profile_at or profiles.position
        diagnostics.add("HW008", at, f"There is no profile '{choice.profile}'.", _hint(choice.profile, profiles))
    if not isinstance(profile, Mapping):
        return Chosen(withhold(profiles), choice.target)
    default = render(profile["target"]) if "target" in profile else None
    name = choice.target or (default.text if isinstance(default, Scalar) and not default.broken else "")
    targets = profile.get("targets")
    if isinstance(targets, Mapping) and name and name not in targets:
        at = Position.option("--target") if choice.target or default is None else default.position
        diagnostics.add("HW009", at, f"There is no target '{name}'.", _hint(name, targets))
    if isinstance(targets, Mapping):
        targets = _only(targets, name, render)
        profile = Mapping(
            tuple(
                Entry(entry.key, targets if entry.name == "targets" else render(entry.node))
                for entry in profile.entries
            ),
            profile.position,
        )
    rendered = profile
    return Chosen(_only(profiles, choice.profile, lambda _: rendered), name)


def _only(node: Mapping, name: str, render: Callable[[Node], Node]) -> Mapping:
    entries = (
        Entry(entry.key, render(entry.node) if entry.name == name else withhold(entry.node)) for entry in node.entries
    )
    return Mapping(tuple(entries), node.position)


def _hint(name: str, there: Mapping) -> str:
    return did_you_mean(name, there) or f"There are: {', '.join(there)}."
