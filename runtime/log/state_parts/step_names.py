"""The names of flows, tables and stores in the text of steps (see `stages/step_texts.py`), under other names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from ...topology import StepText

_NAMING = (
    re.compile(r"(?P<before>merge )(?P<names>.*)(?P<after>)", re.DOTALL),
    re.compile(r"(?P<before>(?:\w+ )?join (?:stream (?:\w+\.)?)?)(?P<names>\w+)(?P<after>(?:,| by ).*)", re.DOTALL),
    re.compile(r"(?P<before>from flow )(?P<names>.*)(?P<after>)", re.DOTALL),
)
"""The steps that name flows or tables, one or several, and what stands around the names."""


_PROCESSOR = re.compile(
    r"(?P<before>process by \S+?(?:, options \{.*\})?)(?:, stores (?P<stores>[\w-]+(?:, [\w-]+)*))?"
    r"(?P<forwards>(?:, forwards key \(.*)?)",
    re.DOTALL,
)
"""The step of a processor: its stores, and the flows to which it forwards, each behind ` to `."""


def renamed_step(
    step: StepText, names: Mapping[str, str], stores: Mapping[str, str] | None = None, *, of_flow: bool = True
) -> StepText:
    """The step with these new names of flows and tables, and of `stores` (old -> new).

    `of_flow`: also of the flow that it is of.
    """
    flow = _edge(step.flow, names) if of_flow else step.flow
    return replace(step, flow=flow, text=_text(step.text, names, stores or {})) if names or stores else step


def _edge(edge: str, names: Mapping[str, str]) -> str:
    """An edge has the name of its flow, or of its flow and of what the flow reads."""
    flow, *rest = edge.split(".")
    return names.get(edge) or ".".join([names.get(flow, flow), *rest])


def _text(text: str, names: Mapping[str, str], stores: Mapping[str, str]) -> str:
    if text.startswith("branch "):
        return _branches(text, names)
    if found := _PROCESSOR.fullmatch(text):
        return _process(found, names, stores)
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


def _process(found: re.Match[str], names: Mapping[str, str], stores: Mapping[str, str]) -> str:
    kept = ", ".join(stores.get(each, each) for each in (found["stores"] or "").split(", "))
    into = re.sub(
        r"(?P<before>\) to )(?P<name>\w+)(?=$|, forwards key \()",
        lambda each: f"{each['before']}{names.get(each['name'], each['name'])}",
        found["forwards"],
    )
    return f"{found['before']}{f', stores {kept}' if kept else ''}{into}"
