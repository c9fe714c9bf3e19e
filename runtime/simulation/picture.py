"""Draws the rounds of a simulation: a row for each client, a column for each round, a box for each task.

The box of an active task has the colour of its subtopology, that of a standby only a frame. The box of a task that is
down is red; that of a standby being restored is dashed. A heavy frame marks a task that has just moved. If there are
very many tasks, a cell has bars with their numbers instead.
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
"""Those of the colours on which text must be dark."""

DOWN = "#c1121f"
INK, PALE, LINE, PAPER = "#1a1a1a", "#f3f3f3", "#d0d0d0", "#ffffff"

MOST_NAMED = 24
MOST_BOXES = 150
"""Tasks in one cell. Up to MOST_NAMED, boxes contain names; above MOST_BOXES there are bars."""

MOST_ROUNDS_DRAWN = 30
"""The most rounds drawn of one event. A picture of hundreds of rounds is wider than any screen."""

_MARGIN, _LABEL, _HEAD, _PAD, _GAP = 16, 64, 80, 6, 3
_COLUMN = 156
_LETTER = 6.1


@dataclass(frozen=True)
class _Box:
    """The size of a task's box, and whether it contains the name."""

    width: int
    height: int
    named: bool

    @property
    def across(self) -> int:
        return (_COLUMN - 2 * _PAD + _GAP) // (self.width + _GAP)

    def height_of(self, tasks: int) -> int:
        rows = max(1, -(-tasks // self.across))
        return rows * (self.height + _GAP) - _GAP + 2 * _PAD


_NAMED, _SMALL = _Box(33, 17, True), _Box(9, 9, False)
_BARS_HEIGHT = 4 * 13 + 2 * _PAD


def draw(simulations: Sequence[Simulation]) -> str:
    """The picture as SVG. Simulations are drawn below one another."""
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
    """Draw one simulation from `y` down. Returns where it ends."""
    application, drawn = simulation.application, _drawn(simulation)
    rounds = [each for each, _ in drawn]
    replicas = application.configs.num_standby_replicas
    title = f"{application.name}: {application.assignor}" + (f", standby replicas: {replicas}" if replicas else "")
    _text(root, _MARGIN, y + 12, title, size=14, weight="bold")
    y += 26
    for number, (each, left_out) in enumerate(drawn):
        _heading(root, each, left_out, _MARGIN + _LABEL + number * _COLUMN, y)
    y += _HEAD
    names = sorted({client.name for each in rounds for client in each.clients}, key=natural)
    most = max(_count(each, name) for each in rounds for name in names)
    box = _NAMED if most <= MOST_NAMED else _SMALL if most <= MOST_BOXES else None
    for name in names:
        tall = _BARS_HEIGHT if box is None else box.height_of(max(_count(each, name) for each in rounds))
        tall = max(tall, 34)
        rack = next((client.rack for each in rounds for client in each.clients if client.name == name), None)
        _text(root, _MARGIN, y + 16, name, weight="bold")
        if rack is not None:
            _text(root, _MARGIN, y + 29, _fitting(rack, _LABEL), fill="#666666")
        seen = False
        for number, each in enumerate(rounds):
            here = any(client.name == name for client in each.clients)
            seen = seen or here
            x = _MARGIN + _LABEL + number * _COLUMN
            _cell(root, x, y, tall, "here" if here else "gone" if seen else "to come")
            if here:
                _tasks(root, each, name, x + _PAD, y + _PAD, box, most)
        y += tall + _GAP
    return _legend(root, simulation, y + 8, box)


def _drawn(simulation: Simulation) -> list[tuple[Round, int]]:
    """The rounds to draw, each with the number of rounds left out before it. A long event lacks some in the middle."""
    found = []
    for rounds in simulation.events():
        left_out = max(0, len(rounds) - MOST_ROUNDS_DRAWN)
        found += [(each, 0) for each in rounds[: MOST_ROUNDS_DRAWN - 1]]
        found += [(each, left_out) for each in rounds[MOST_ROUNDS_DRAWN - 1 :][left_out:]]
    return found


def _heading(root: ElementTree.Element, each: Round, left_out: int, x: int, y: int) -> None:
    """The events of a round in a few short lines."""
    cause = f"{left_out} rounds later" if left_out else each.cause
    _text(root, x + _PAD, y + 11, _fitting(cause, _COLUMN - _PAD), weight="bold", hint=cause)
    lines = [(f"at {shown_duration(each.at_ms)}", "#666666")]
    if each.moves or each.new_standbys:
        new = f", {each.new_standbys} new standby{'s' if each.new_standbys != 1 else ''}" if each.new_standbys else ""
        lines.append((f"{len(each.moves)} moved{new}", INK))
    if each.restored.down:
        lines.append((f"{len(each.restored.down)} down ≤ {shown_duration(each.down_ms)}", DOWN))
    if each.restored.bytes:
        lines.append((f"{shown_size(each.restored.bytes)} restored", INK))
    for number, (line, colour) in enumerate(lines):
        _text(root, x + _PAD, y + 25 + 14 * number, _fitting(line, _COLUMN - _PAD), fill=colour)


def _cell(root: ElementTree.Element, x: int, y: int, tall: int, state: str) -> None:
    if state == "here":
        _rect(root, x, y, _COLUMN - _GAP, tall, fill=PALE, rx=3)
    elif state == "gone":
        _text(root, x + _COLUMN / 2 - 14, y + tall / 2 + 4, "gone", fill="#999999")


def _tasks(root: ElementTree.Element, each: Round, name: str, x: int, y: int, box: _Box | None, most: int) -> None:
    placed = each.placements[name]
    moved = {move.task for move in each.moves}
    marks = [_mark(each, name, task, True, task in moved) for task in placed.active]
    marks += [_mark(each, name, task, False, False) for task in placed.standby]
    if box is None:
        _bars(root, marks, x, y, most)
        return
    for number, mark in enumerate(marks):
        row, column = divmod(number, box.across)
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


def _mark(each: Round, name: str, task: TaskId, active: bool, moved: bool) -> _Mark:
    restoring = (name, task) in each.restoring
    role = ("down" if restoring else "active") if active else ("restoring" if restoring else "standby")
    return _Mark(task, role, moved)


def _bars(root: ElementTree.Element, marks: Sequence[_Mark], x: int, y: int, most: int) -> None:
    """The number of tasks in each role. A bar for `most` tasks has the full length."""
    counts, wide = Counter(mark.role for mark in marks), _COLUMN - 2 * _PAD - 76
    for row, role in enumerate(role for role in ("active", "down", "standby", "restoring") if counts[role]):
        colour = {"active": COLOURS[0], "down": DOWN}.get(role, LINE)
        _rect(root, x, y + 13 * row, max(1, wide * counts[role] // most), 10, fill=colour)
        _text(root, x + wide + 4, y + 13 * row + 9, f"{counts[role]:,} {role}", size=10)


def _legend(root: ElementTree.Element, simulation: Simulation, y: int, box: _Box | None) -> int:
    """The meaning of colours and frames. Returns where it ends."""
    if box is None:
        return y
    x = float(_MARGIN + _LABEL)
    numbers = sorted({task.info.id.subtopology for task in simulation.application.tasks})
    names = dict(enumerate(simulation.application.subtopologies))
    first = TaskId(numbers[0], 0) if numbers else TaskId(0, 0)
    entries = [(_Mark(TaskId(number, 0), "active", False), f"{number} {names.get(number, '')}") for number in numbers]
    if any(each.moves for each in simulation.rounds):
        entries.append((_Mark(first, "active", True), "just moved"))
    if any(each.restored.down for each in simulation.rounds):
        entries.append((_Mark(first, "down", False), "down: being restored"))
    if any(placed.standby for each in simulation.rounds for placed in each.placements.values()):
        entries += [(_Mark(first, "standby", False), "standby"), (_Mark(first, "restoring", False), "warming up")]
    right = _MARGIN + _LABEL + max(3, len(_drawn(simulation))) * _COLUMN
    for mark, label in entries:
        label = _fitting(label.strip(), 200)
        wide = 18 + len(label) * _LETTER + 14
        if x + wide > right:
            x, y = float(_MARGIN + _LABEL), y + 18
        _rect(root, x, y, 12, 12, rx=2, **mark.style())
        _text(root, x + 18, y + 10, label)
        x += wide
    return y + 14


def _count(each: Round, name: str) -> int:
    placed = each.placements.get(name)
    return 0 if placed is None else len(placed.active) + len(placed.standby)


def _fitting(text: str, width: float) -> str:
    most = int(width / _LETTER)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _rect(
    root: ElementTree.Element, x: float, y: float, width: float | str, height: float | str, rx: int = 0, **style: str
) -> ElementTree.Element:
    place = {"x": f"{x:g}", "y": f"{y:g}", "width": str(width), "height": str(height)}
    return ElementTree.SubElement(root, "rect", {**place, **({"rx": str(rx)} if rx else {}), **style})


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
    given = {name: value for name, value in style.items() if value}
    text = ElementTree.SubElement(root, "text", {"x": f"{x:g}", "y": f"{y:g}", "fill": fill, **given})
    text.text = content
    if hint and hint != content:
        ElementTree.SubElement(text, "title").text = hint
