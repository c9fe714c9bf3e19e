from __future__ import annotations

import itertools
import threading

import pytest

from headwater.runtime.timed_parts import MOST_SPANS, Span, Spans, listening, timed


def test_parts_are_told_to_who_listens_in_this_thread_also_if_they_fail():
    spans = Spans(clock=itertools.count().__next__)  # each look at the clock takes a second
    with timed("before"):
        pass
    with listening(spans):
        other = threading.Thread(target=lambda: timed("elsewhere").__enter__())
        other.start()
        other.join()
        with pytest.raises(ValueError), timed("outer"), timed("inner"):
            raise ValueError
        with listening(None), timed("of nobody"):
            pass
    with timed("after"):
        pass

    assert spans.take() == (Span("outer", 0, 3), Span("inner", 1, 2))
    assert spans.take() == ()


def test_part_that_takes_no_time_is_behind_the_one_around_it():
    spans = Spans(clock=lambda: 7.0)
    with spans.timed("outer"), spans.timed("inner"), spans.timed("innermost"):
        pass

    assert [each.part for each in spans.take()] == ["outer", "inner", "innermost"]


def test_short_parts_are_left_out_and_equal_ones_beside_each_other_become_one():
    ticks = iter([0, 10, 10, 10.1, 10.2, 10.5, 11, 20, 20, 20, 21, 25])
    spans = Spans(1.0, 2.0, ticks.__next__)
    with spans.timed("wait"):
        pass
    with spans.timed("look"), spans.timed("fsync"):  # 0.5 s
        pass
    with spans.timed("wait"):
        pass
    with spans.timed("commit"), spans.timed("fsync"):  # the second takes 1 s of 5
        pass

    assert spans.take() == (Span("wait", 0, 20), Span("commit", 20, 25), Span("fsync", 20, 21))


def test_newest_parts_are_kept_of_very_many():
    spans = Spans()
    for number in range(MOST_SPANS + 3):
        spans.add(Span("a", number, number + 1))

    assert [each.start for each in spans.take()] == [*range(3, MOST_SPANS + 3)]
