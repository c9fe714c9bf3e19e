"""Which rows of a test belong together, and which of their cells differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

import pytest

from headwater.runtime.testing.comparing import align, best_matching, compared, equal

Rows = Sequence[Mapping[str, Any]]


def kinds(expected: Rows, found: Rows, **how: bool) -> list[tuple[str, int | None, int | None]]:
    return [(each.kind, each.number, each.place) for each in compared(expected, found, ["k"], **how)]


A1, A2, A3, B1 = {"k": "a", "n": 1}, {"k": "a", "n": 2}, {"k": "a", "n": 3}, {"k": "b", "n": 1}


@pytest.mark.parametrize(
    ("expected", "found", "how", "rows"),
    [
        ([A1, B1, A2], [B1, A1, A2], {}, [("same", 0, 1), ("same", 1, 0), ("same", 2, 2)]),
        ([A1, A2], [A2, A1], {}, [("missing", 0, None), ("same", 1, 0), ("unexpected", None, 1)]),
        ([A1, A2], [A2, A1], {"any_order": True}, [("same", 0, 1), ("same", 1, 0)]),
        (
            [A1, A3],
            [A1, A2, A3, B1],
            {},
            [("same", 0, 0), ("same", 1, 2), ("unexpected", None, 1), ("unexpected", None, 3)],
        ),
        ([A1, A3], [A1, A2, A3, B1], {"contains": True}, [("same", 0, 0), ("same", 1, 2)]),
        ([A3, A1], [A1, A2, A3], {"contains": True}, [("missing", 0, None), ("same", 1, 0)]),
        ([A1], [A2], {}, [("differs", 0, 0)]),
        ([A1], [], {}, [("missing", 0, None)]),
        ([], [A1], {}, [("unexpected", None, 0)]),
        ([{"n": 1}, {"n": 2}], [A2, B1], {}, [("missing", 0, None), ("same", 1, 0), ("unexpected", None, 1)]),
        ([{"n": 1}, A1], [B1, A1], {"any_order": True}, [("same", 0, 0), ("same", 1, 1)]),
    ],
)
def test_rows_are_compared_in_order_for_each_key(
    expected: Rows, found: Rows, how: Mapping[str, bool], rows: list[Any]
) -> None:
    assert kinds(expected, found, **how) == rows


def test_cells_that_are_not_named_are_not_compared() -> None:
    (row,) = compared([{"k": "a", "n": 2}], [{"k": "a", "n": 1, "other": 5}], ["k"])

    assert (row.kind, row.differing) == ("differs", ("n",))


def test_column_of_a_deleted_row_differs_from_every_value() -> None:
    (row,) = compared([{"k": "a", "n": None}], [{"k": "a", "value": None}], ["k"])

    assert row.differing == ("n",)


@pytest.mark.parametrize("deleted", ["value", "record.value"])
def test_row_that_does_not_say_that_it_is_deleted_is_not(deleted: str) -> None:
    (row,) = compared([{"k": "a"}], [{"k": "a", deleted: None}], ["k"], deleted=deleted)
    (same,) = compared([{"k": "a", deleted: None}], [{"k": "a", deleted: None}], ["k"], deleted=deleted)

    assert (row.kind, row.differing, same.kind) == ("differs", (deleted,), "same")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1.0, True),
        (0.3, 0.1 + 0.2, True),
        (0.33333333, 1 / 3, False),
        (0.3333333333, 1 / 3, True),
        (1e-13, 2e-13, False),
        (0.0, 1e-300, False),
        (1e-300, 1.0000000001e-300, True),
        (0.0, -0.0, True),
        (1_357_041_600_000.0, 1_357_041_600_001.0, False),
        (42.0, 42.00000000000001, True),
        (1.2345678901e300, 1.23456789012e300, True),
        ("NaN", 0.0, False),
        (True, 1, False),
        ("NaN", "NaN", True),
        ([1.0, {"a": 0.3}], [1, {"a": 0.1 + 0.2}], True),
        ([1], [1, 2], False),
        ({"a": 1}, {"b": 1}, False),
        (None, 0, False),
        ("1", 1, False),
    ],
)
def test_values_are_equal_up_to_the_digits_that_people_write(one: Any, other: Any, same: bool) -> None:
    assert equal(one, other) is same


@pytest.mark.parametrize("right", [*permutations("abc"), ("a", "x", "c"), (), ("c",), tuple("aabbcc")])
def test_alignment_keeps_both_orders_and_loses_nothing(right: tuple[str, ...]) -> None:
    pairs = align(3, len(right), lambda one, other: "abc"[one] == right[other])

    assert [one for one, _ in pairs if one is not None] == [0, 1, 2]
    assert [other for _, other in pairs if other is not None] == list(range(len(right)))


def test_matching_gives_up_an_early_pair_for_one_more() -> None:
    fits = {(0, 0), (0, 1), (1, 0)}

    assert best_matching(2, 2, lambda one, other: (one, other) in fits) == {0: 1, 1: 0}


def test_matching_moves_as_many_pairs_as_it_takes_and_knows_no_depth() -> None:
    many = 1200  # each but the last fits two, the last only the first: so every pair has to move

    found = best_matching(many, many, lambda one, other: other == 0 if one == many - 1 else other in (one, one + 1))

    assert found == {many - 1: 0, **{one: one + 1 for one in range(many - 1)}}
