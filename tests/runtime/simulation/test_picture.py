"""What is drawn, read back from the SVG."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree

import pytest

from headwater.runtime.simulation.model import shown_duration
from headwater.runtime.simulation.picture import (
    COLOURS,
    DOWN,
    MOST_BOXES,
    MOST_NAMED,
    MOST_ROUNDS_DRAWN,
    PAPER,
    draw,
)
from headwater.tests.runtime.simulation.simulated import Scripted, simulate, task

SVG = "{http://www.w3.org/2000/svg}"


def boxes(picture: str) -> list[tuple[str, dict[str, str]]]:
    """Title and attributes of each task's box."""
    rects = ElementTree.fromstring(picture).iter(f"{SVG}rect")
    return [(title.text or "", rect.attrib) for rect in rects for title in rect.iter(f"{SVG}title")]


def texts(picture: str) -> list[str]:
    return [text.text or "" for text in ElementTree.fromstring(picture).iter(f"{SVG}text")]


def test_box_shows_the_role_of_its_task() -> None:
    assignor = Scripted({"c1": ("0_0", "0_1"), "c2": ("0_1", "")}, {"c1": ("0_0", ""), "c3": ("0_1", "")})
    drawn = boxes(draw([simulate([task(0), task(1)], "kill c2", clients=3, assignor=assignor)]))

    assert [title for title, _ in drawn] == ["0_0: active", "0_1: standby", "0_0: active", "0_1: active", "0_1: down"]
    active, standby, _, _, down = [style for _, style in drawn]
    assert (active["fill"], active.get("stroke")) == (COLOURS[0], None)
    assert (standby["fill"], standby["stroke"]) == (PAPER, COLOURS[0])
    assert (down["fill"], down["stroke-width"]) == (DOWN, "2")


def test_standby_that_is_restored_is_dashed() -> None:
    assignor = Scripted({"c1": ("0_0", "")}, {"c1": ("0_0", ""), "c2": ("", "0_0")})
    *_, (title, style) = boxes(draw([simulate([task(0)], "add 1", assignor=assignor)]))

    assert title == "0_0: restoring"
    assert style["stroke-dasharray"] == "3 2"


def test_rounds_and_clients_are_named() -> None:
    found = texts(draw([simulate([task(0), task(1)], "kill c1", racks=("north", "south"))]))

    assert {"demo: test", "start", "kill c1", "c1", "c2", "north", "south", "gone", "1 moved", "1 down ≤ 10 s"} <= set(
        found
    )


@pytest.mark.parametrize(
    ("tasks", "named", "boxed"),
    [(MOST_NAMED, True, True), (MOST_NAMED + 1, False, True), (MOST_BOXES + 1, False, False)],
)
def test_more_tasks_are_drawn_smaller(tasks: int, named: bool, boxed: bool) -> None:
    picture = draw([simulate([task(number) for number in range(tasks)], clients=1)])

    assert ("0_0" in texts(picture)) is named
    assert len(boxes(picture)) == (tasks if boxed else 0)
    assert (f"{tasks} active" in texts(picture)) is not boxed


def test_names_from_outside_are_text_not_markup() -> None:
    picture = draw([simulate([task(0)], racks=("<b>&",))])

    assert "<b>&" in texts(picture)


def test_picture_is_the_same_each_time_and_panels_stand_below_one_another() -> None:
    one = simulate([task(0), task(1)], "kill c1")
    single, double = draw([one]), draw([one, one])

    assert single == draw([simulate([task(0), task(1)], "kill c1")])
    assert texts(double).count("demo: test") == 2
    assert int(ElementTree.fromstring(double).attrib["height"]) > int(ElementTree.fromstring(single).attrib["height"])


@pytest.mark.parametrize(("rounds", "left_out"), [(MOST_ROUNDS_DRAWN, 0), (MOST_ROUNDS_DRAWN + 1, 1), (99, 69)])
def test_of_a_long_event_rounds_in_the_middle_are_left_out(rounds: int, left_out: int) -> None:
    there, back = {"c1": ("0_0", "")}, {"c2": ("0_0", "")}
    answers = [there, back] * rounds
    assignor = Scripted(*answers[:rounds], pauses=(1_000,) * (rounds - 1))
    simulation = simulate([task(0, 0)], assignor=assignor)
    assert len(simulation.rounds) == rounds

    drawn = draw([simulation])

    assert len(boxes(drawn)) == MOST_ROUNDS_DRAWN
    assert (f"{left_out} rounds later" in texts(drawn)) == (left_out > 0)
    assert f"at {shown_duration(simulation.rounds[-1].at_ms)}" in texts(drawn)


@pytest.mark.parametrize("clients", [1, 3, 50, 200])
@pytest.mark.parametrize("tasks", [0, 3, 300, 3_000])
def test_nothing_is_out_of_bounds_or_on_top_of_another(clients: int, tasks: int) -> None:
    simulation = simulate(
        [task(number, 0) for number in range(tasks)], "add 2 b", clients=clients, racks=("a-rack-of-a-long-name", "b")
    )
    root = ElementTree.fromstring(draw([simulation]))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    places = []
    for rect in root.iter(f"{SVG}rect"):
        if rect.attrib["width"] != "100%":
            x, y, wide, tall = (float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
            assert min(x, y) >= 0
            assert x + wide <= width
            assert y + tall <= height
            if rect.find(f"{SVG}title") is not None:
                places.append((y, x, wide, tall))
    places.sort()
    for (y, x, wide, _), (below, right, _, _) in pairwise(places):
        assert below > y or right >= x + wide
