"""The names of flows and tables in the text of steps (see `stages/step_texts.py`), under other names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from ...topology import StepText

_NAMING = (
    re.compile(r"(?P<before>merge )(?P<names>.*)(?P<after>)", re.DOTALL),
    re.compile(r"(?P<before>(?:inner|left) join )(?P<names>\w+)(?P<after>(?:,| by ).*)", re.DOTALL),
    re.compile(r"(?P<before>from flow )(?P<names>.*)(?P<after>)", re.DOTALL),
)
"""The steps that name flows or tables, one or several, and what stands around the names."""


def renamed_step(step: StepText, names: Mapping[str, str], *, of_flow: bool = True) -> StepText:
    """The step with these new names of flows and tables (old -> new). `of_flow`: also of the flow that it is of."""
    flow = names.get(step.flow, step.flow) if of_flow else step.flow
    return replace(step, flow=flow, text=_text(step.text, names)) if names else step


def _text(text: str, names: Mapping[str, str]) -> str:
    if text.startswith("branch "):
        return _branches(text, names)
    for naming in _NAMING:
        if found := naming.fullmatch(text):
            named = (names.get(each, each) for each in found["names"].split(", "))
            return f"{found['before']}{', '.join(named)}{found['after']}"
    return text


def _branches(text: str, names: Mapping[str, str]) -> str:
    """`branch dear: price > 5, rest: the rest`: each name is before a colon."""
    return re.sub(
        r"(?P<before>^branch |, )(?P<name>\w+)(?=: )",
        lambda found: f"{found['before']}{names.get(found['name'], found['name'])}",
        text,
    )
