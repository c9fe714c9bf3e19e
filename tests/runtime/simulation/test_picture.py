"""What is drawn, read back from the SVG."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from simulated import Scripted, simulate, task

from headwater.runtime.simulation.picture import COLOURS, DOWN, MOST_BOXES, MOST_NAMED, PAPER, draw

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
