"""Draws a simulation as SVG: a row per client, a column per round, a box per task.

The box of an active task is filled with the colour of its subtopology, the box of a standby has only a frame. A task
that is down is red, a restoring standby is dashed. A heavy frame marks a task that has just moved. With very many tasks
a cell has bars with their numbers instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from ..task_id import TaskId
from .model import shown_duration, shown_size
from .report import Round, Simulation
from .rounds import natural

COLOURS = ("#0072b2", "#e69f00", "#00805e", "#cc79a7", "#56b4e9", "#7f6a00", "#785ef0", "#666666")
"""The colours of subtopologies, in turn.

People with any kind of colour vision can tell them apart (after Okabe and Ito).
"""

LIGHT = frozenset({"#e69f00", "#cc79a7", "#56b4e9"})
"""The colours that need dark text."""

DOWN = "#c1121f"
INK, PALE, LINE, PAPER = "#1a1a1a", "#f3f3f3", "#d0d0d0", "#ffffff"

MOST_NAMED = 24
MOST_BOXES = 150
"""Limits of tasks in one cell. Up to MOST_NAMED, boxes have names; above MOST_BOXES there are bars."""

MOST_ROUNDS_DRAWN = 30
"""The most rounds drawn of one event. A picture of hundreds of rounds is wider than any screen."""

_MARGIN, _LABEL, _HEAD, _PAD, _GAP = 16, 64, 80, 6, 3
_COLUMN = 156
_LETTER = 6.1


@dataclass(frozen=True)
class _Box:
    """The size of a task's box, and whether it has the task's name."""

    width: int
    height: int
    named: bool

    @property
    def per_row(self) -> int:
        return (_COLUMN - 2 * _PAD + _GAP) // (self.width + _GAP)

    def cell_height(self, tasks: int) -> int:
        rows = max(1, -(-tasks // self.per_row))
        return rows * (self.height + _GAP) - _GAP + 2 * _PAD


_NAMED, _SMALL = _Box(33, 17, True), _Box(9, 9, False)
_BARS_HEIGHT = 4 * 13 + 2 * _PAD


def draw(simulations: Sequence[Simulation]) -> str:
    """The picture as SVG, with the simulations below one another."""
    root = ElementTree.Element(
        "svg", {"xmlns": "http://www.w3.org/2000/svg", "font-family": "Helvetica, Arial, sans-serif", "font-size": "11"}
    )
    _rect(root, 0, 0, "100%", "100%", fill=PAPER)
    width, y = 2 * _MARGIN + _LABEL + 3 * _COLUMN, _MARGIN
    for simulation in simulations:
        width = max(width, 2 * _MARGIN + _LABEL + len(_drawn(simulation)) * _COLUMN)
        y = _panel(root, simulation, y) + 2 * _MARGIN
    height = max(y - _MARGIN, 2 * _MARGIN)
    root.attrib |= {"width": str(width), "height": str(height), "viewBox": f"0 0 {width} {height}"}
    ElementTree.indent(root, " ")
    return ElementTree.tostring(root, "unicode") + "\n"


def _panel(root: ElementTree.Element, simulation: Simulation, y: int) -> int:
    """Draw one simulation from `y` down. Returns the y of its end."""
    application, drawn = simulation.application, _drawn(simulation)
    rounds = [round_ for round_, _ in drawn]
    replicas = application.configs.num_standby_replicas
    title = f"{application.name}: {application.assignor}" + (f", standby replicas: {replicas}" if replicas else "")
    _text(root, _MARGIN, y + 12, title, size=14, weight="bold")
    y += 26
    for number, (round_, skipped) in enumerate(drawn):
        _heading(root, round_, skipped, _MARGIN + _LABEL + number * _COLUMN, y)
    y += _HEAD
    names = sorted({client.name for round_ in rounds for client in round_.clients}, key=natural)
    most = max(_count(round_, name) for round_ in rounds for name in names)
    box = _NAMED if most <= MOST_NAMED else _SMALL if most <= MOST_BOXES else None
    for name in names:
        height = _BARS_HEIGHT if box is None else box.cell_height(max(_count(round_, name) for round_ in rounds))
        height = max(height, 34)
        rack = next((client.rack for round_ in rounds for client in round_.clients if client.name == name), None)
        _text(root, _MARGIN, y + 16, name, weight="bold")
        if rack is not None:
            _text(root, _MARGIN, y + 29, _shortened(rack, _LABEL), fill="#666666")
        has_joined = False
        for number, round_ in enumerate(rounds):
            is_member = any(client.name == name for client in round_.clients)
            has_joined = has_joined or is_member
            x = _MARGIN + _LABEL + number * _COLUMN
            _cell(root, x, y, height, "member" if is_member else "gone" if has_joined else "future")
            if is_member:
                _tasks(root, round_, name, x + _PAD, y + _PAD, box, most)
        y += height + _GAP
    return _legend(root, simulation, y + 8, box)


def _drawn(simulation: Simulation) -> list[tuple[Round, int]]:
    """The rounds to draw, with the number of skipped rounds before each. A long event lacks rounds in the middle."""
    drawn = []
    for rounds in simulation.events():
        skipped = max(0, len(rounds) - MOST_ROUNDS_DRAWN)
        drawn += [(round_, 0) for round_ in rounds[: MOST_ROUNDS_DRAWN - 1]]
        drawn += [(round_, skipped) for round_ in rounds[MOST_ROUNDS_DRAWN - 1 :][skipped:]]
    return drawn


def _heading(root: ElementTree.Element, round_: Round, skipped: int, x: int, y: int) -> None:
    """The cause and the results of a round in a few short lines."""
    cause = f"{skipped} rounds later" if skipped else round_.cause
    _text(root, x + _PAD, y + 11, _shortened(cause, _COLUMN - _PAD), weight="bold", hint=cause)
    lines = [(f"at {shown_duration(round_.at_ms)}", "#666666")]
    if round_.moves or round_.new_standbys:
        standbys = f", {round_.new_standbys} new standby{'s' if round_.new_standbys != 1 else ''}"
        lines.append((f"{len(round_.moves)} moved{standbys if round_.new_standbys else ''}", INK))
    if round_.restored.down:
        lines.append((f"{len(round_.restored.down)} down ≤ {shown_duration(round_.down_ms)}", DOWN))
    if round_.restored.bytes:
        lines.append((f"{shown_size(round_.restored.bytes)} restored", INK))
    for number, (line, colour) in enumerate(lines):
        _text(root, x + _PAD, y + 25 + 14 * number, _shortened(line, _COLUMN - _PAD), fill=colour)


def _cell(root: ElementTree.Element, x: int, y: int, height: int, state: str) -> None:
    """A cell. `state` of the client in this round: member, gone or future."""
    if state == "member":
        _rect(root, x, y, _COLUMN - _GAP, height, fill=PALE, rx=3)
    elif state == "gone":
        _text(root, x + _COLUMN / 2 - 14, y + height / 2 + 4, "gone", fill="#999999")


def _tasks(root: ElementTree.Element, round_: Round, name: str, x: int, y: int, box: _Box | None, most: int) -> None:
    placed = round_.placements[name]
    moved = {move.task for move in round_.moves}
    marks = [_mark(round_, name, task, True, task in moved) for task in placed.active]
    marks += [_mark(round_, name, task, False, False) for task in placed.standby]
    if box is None:
        _bars(root, marks, x, y, most)
        return
    for number, mark in enumerate(marks):
        row, column = divmod(number, box.per_row)
        left, top = x + column * (box.width + _GAP), y + row * (box.height + _GAP)
        rect = _rect(root, left, top, box.width, box.height, rx=2, **mark.style())
        ElementTree.SubElement(rect, "title").text = f"{mark.task} {mark.task.name}: {mark.role}".replace(" :", ":")
        if box.named:
            _text(root, left + box.width / 2, top + 12.5, str(mark.task), fill=mark.ink, anchor="middle", size=10)


@dataclass(frozen=True)
class _Mark:
    """How a task is drawn. `role`: active, down, standby, or restoring."""

    task: TaskId
    role: str
    moved: bool

    @property
    def colour(self) -> str:
        return COLOURS[self.task.subtopology % len(COLOURS)]

    @property
    def ink(self) -> str:
        return INK if self.style()["fill"] in {PAPER, *LIGHT} else PAPER

    def style(self) -> dict[str, str]:
        if self.role == "restoring":
            return {"fill": PAPER, "stroke": self.colour, "stroke-width": "1.5", "stroke-dasharray": "3 2"}
        if self.role == "standby":
            return {"fill": PAPER, "stroke": self.colour, "stroke-width": "1.5"}
        edge = {"stroke": INK, "stroke-width": "2"} if self.moved else {}
        return {"fill": DOWN if self.role == "down" else self.colour, **edge}


def _mark(round_: Round, name: str, task: TaskId, active: bool, moved: bool) -> _Mark:
    restoring = (name, task) in round_.restoring
    role = ("down" if restoring else "active") if active else ("restoring" if restoring else "standby")
    return _Mark(task, role, moved)


def _bars(root: ElementTree.Element, marks: Sequence[_Mark], x: int, y: int, most: int) -> None:
    """The number of tasks in each role. A bar for `most` tasks has the full length."""
    counts, width = Counter(mark.role for mark in marks), _COLUMN - 2 * _PAD - 76
    for row, role in enumerate(role for role in ("active", "down", "standby", "restoring") if counts[role]):
        colour = {"active": COLOURS[0], "down": DOWN}.get(role, LINE)
        _rect(root, x, y + 13 * row, max(1, width * counts[role] // most), 10, fill=colour)
        _text(root, x + width + 4, y + 13 * row + 9, f"{counts[role]:,} {role}", size=10)


def _legend(root: ElementTree.Element, simulation: Simulation, y: int, box: _Box | None) -> int:
    """The meaning of colours and frames. Returns the y of its end."""
    if box is None:
        return y
    x = float(_MARGIN + _LABEL)
    numbers = sorted({task.info.id.subtopology for task in simulation.application.tasks})
    names = dict(enumerate(simulation.application.subtopologies))
    first = TaskId(numbers[0], 0) if numbers else TaskId(0, 0)
    entries = [(_Mark(TaskId(number, 0), "active", False), f"{number} {names.get(number, '')}") for number in numbers]
    if any(round_.moves for round_ in simulation.rounds):
        entries.append((_Mark(first, "active", True), "just moved"))
    if any(round_.restored.down for round_ in simulation.rounds):
        entries.append((_Mark(first, "down", False), "down: being restored"))
    if any(placed.standby for round_ in simulation.rounds for placed in round_.placements.values()):
        entries += [(_Mark(first, "standby", False), "standby"), (_Mark(first, "restoring", False), "warming up")]
    right = _MARGIN + _LABEL + max(3, len(_drawn(simulation))) * _COLUMN
    for mark, label in entries:
        label = _shortened(label.strip(), 200)
        width = 18 + len(label) * _LETTER + 14
        if x + width > right:
            x, y = float(_MARGIN + _LABEL), y + 18
        _rect(root, x, y, 12, 12, rx=2, **mark.style())
        _text(root, x + 18, y + 10, label)
        x += width
    return y + 14


def _count(round_: Round, name: str) -> int:
    placed = round_.placements.get(name)
    return 0 if placed is None else len(placed.active) + len(placed.standby)


def _shortened(text: str, width: float) -> str:
    letters = int(width / _LETTER)
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


def _rect(
    root: ElementTree.Element, x: float, y: float, width: float | str, height: float | str, rx: int = 0, **style: str
) -> ElementTree.Element:
    bounds = {"x": f"{x:g}", "y": f"{y:g}", "width": str(width), "height": str(height)}
    return ElementTree.SubElement(root, "rect", {**bounds, **({"rx": str(rx)} if rx else {}), **style})


def _text(
    root: ElementTree.Element,
    x: float,
    y: float,
    content: str,
    *,
    fill: str = INK,
    size: int = 0,
    weight: str = "",
    anchor: str = "",
    hint: str = "",
) -> None:
    style = {"font-size": str(size) if size else "", "font-weight": weight, "text-anchor": anchor}
    attributes = {name: value for name, value in style.items() if value}
    text = ElementTree.SubElement(root, "text", {"x": f"{x:g}", "y": f"{y:g}", "fill": fill, **attributes})
    text.text = content
    if hint and hint != content:
        ElementTree.SubElement(text, "title").text = hint
