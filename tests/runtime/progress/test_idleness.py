"""Who is idle, over chains and circles of writers."""

from __future__ import annotations

from headwater.runtime.log.commit.descriptions import SubtopologyDescription
from headwater.runtime.progress.committed import Network, idle_tasks
from headwater.runtime.task_id import TaskKey

CHAIN = Network(
    {
        ("a", "first"): SubtopologyDescription(2, ("in",), ("mid",)),
        ("a", "second"): SubtopologyDescription(1, ("mid",), ("out",)),
        ("b", "third"): SubtopologyDescription(1, ("out",), ()),
    }
)
ALL: list[TaskKey] = [
    TaskKey("a", "first", 0),
    TaskKey("a", "first", 1),
    TaskKey("a", "second", 0),
    TaskKey("b", "third", 0),
]


def test_chain_whose_source_is_consumed_is_idle() -> None:
    assert set(idle_tasks(CHAIN, ALL, lambda task: True).values()) == {True}


def test_task_behind_makes_all_downstream_wait_but_not_its_sibling() -> None:
    idle = idle_tasks(CHAIN, ALL, lambda task: task != TaskKey("a", "first", 1))
    assert idle == {
        TaskKey("a", "first", 0): True,
        TaskKey("a", "first", 1): False,
        TaskKey("a", "second", 0): False,
        TaskKey("b", "third", 0): False,
    }


def test_circle_does_not_wait_for_itself_but_waits_for_what_feeds_it() -> None:
    circle = Network(
        {
            ("a", "x"): SubtopologyDescription(1, ("feed", "back"), ("forth",)),
            ("b", "y"): SubtopologyDescription(1, ("forth",), ("back",)),
            ("c", "z"): SubtopologyDescription(1, ("in",), ("feed",)),
        }
    )
    assert circle.in_a_circle(("a", "x"), ("b", "y"))
    assert not circle.in_a_circle(("a", "x"), ("c", "z"))
    idle = idle_tasks(circle, [TaskKey("a", "x", 0)], lambda task: task[0] != "b")
    assert idle["a", "x", 0]
    assert not idle_tasks(circle, [TaskKey("a", "x", 0)], lambda task: task[0] != "c")["a", "x", 0]


def test_who_answers_waits_for_those_who_ask_and_only_others_wait_for_the_answers() -> None:
    asking, answering, reading = ("a", "asks"), ("a", "answers"), ("b", "reads")
    network = Network(
        {
            asking: SubtopologyDescription(1, ("in", "back"), ("forth", "out"), answers=("back",)),
            answering: SubtopologyDescription(1, ("forth",), ("back",)),
            reading: SubtopologyDescription(1, ("out",), ()),
        }
    )
    assert not network.in_a_circle(answering, asking)
    assert network.responding(asking, reading) == (answering,)
    assert network.responding(asking, answering) == ()
    one = TaskKey(*asking, 0)
    assert idle_tasks(network, [one], lambda task: task == one)[one]
