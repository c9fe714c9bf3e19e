"""Reads profiles.yml and renders only the chosen target.

Other targets, such as one for production, may read environment variables that are not set on this machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..diagnostics import Diagnostics, Position, did_you_mean
from .jinja.render import withhold
from .nodes import Entry, Mapping, Node, Scalar


@dataclass(frozen=True)
class Choice:
    """The names of the profile and the target to use. `profile_at`: the place that names the profile.

    `profile_at` is None if the profile is called like the project. `target` is empty if the profile's default applies.
    """

    profile: str
    target: str
    profile_at: Position | None = None


@dataclass(frozen=True)
class Chosen:
    """The tree of profiles.yml, in which only the chosen part is rendered, and the name of the target."""

    tree: Node
    target_name: str


def choose(profiles: Node, choice: Choice, render: Callable[[Node], Node], diagnostics: Diagnostics) -> Chosen:
    """Render the chosen target with `render`. Report a profile or target that does not exist."""
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
