from __future__ import annotations

from headwater.runtime.assignment.placement import ConstrainedPrioritySet


def test_lightest_is_polled_and_the_first_of_equals() -> None:
    queue = ConstrainedPrioritySet([2.0, 1.0, 1.0])
    queue.offer_all(range(3))

    assert [queue.poll() for _ in range(4)] == [1, 2, 0, None]


def test_client_that_is_not_allowed_stays() -> None:
    queue = ConstrainedPrioritySet([0.0, 1.0])
    queue.offer_all(range(2))

    assert queue.poll(lambda client: client == 1) == 1
    assert queue.poll(lambda client: client == 1) is None
    assert queue.poll() == 0


def test_client_that_is_offered_again_counts_once_with_its_new_weight() -> None:
    weights = [0.0, 1.0]
    queue = ConstrainedPrioritySet(weights)
    queue.offer_all(range(2))
    weights[0] = 2.0
    queue.offer(0)
    queue.offer(0)

    assert [queue.poll() for _ in range(3)] == [1, 0, None]
