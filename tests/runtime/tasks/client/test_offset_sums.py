import pytest

from headwater.runtime.task_id import MAX_OFFSET_SUM
from headwater.runtime.tasks.task_manager import OffsetError, offset_sum


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        ([5, 10], 15),
        ([-2, -2], -2),
        ([-2, 7], -2),
        ([-4, 10], 10),
        ([-4], 0),
        ([0], 0),
        ([], None),
        ([MAX_OFFSET_SUM // 2] * 3, MAX_OFFSET_SUM),
    ],
)
def test_offsets_are_summed(offsets, expected):
    assert offset_sum(offsets) == expected


@pytest.mark.parametrize("offset", [-1, -3, -5])
def test_other_negative_offset_is_refused(offset):
    with pytest.raises(OffsetError, match=f"{offset} is not a valid offset"):
        offset_sum([3, offset])
