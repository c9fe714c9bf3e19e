"""What the built-in strategies decide."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headwater.runtime.log.commit.records import StoreSnapshot
from headwater.runtime.restore.strategies import EVERY_BYTES, ChangelogRestore, SnapshotRestore
from headwater.runtime.state.restore_strategy import Apply, Load, RestoreRequest, Save, Unsaved

OLDER = StoreSnapshot("s", 0, 1_000_000, "older", 100_000_000, 0, "lmdb", 0)
NEWEST = replace(OLDER, position=1_200_000, path="newest")


def test_changelog_is_applied_up_to_the_target_in_slices_as_asked():
    assert list(ChangelogRestore(slice_records=5).steps(RestoreRequest("s", 0, 3, 12))) == [Apply(12, 5)]


@pytest.mark.parametrize(
    ("position", "snapshots", "first"),
    [
        (0, (NEWEST, OLDER), Load(NEWEST)),
        (0, (), Apply(1_300_000)),
        (900_000, (NEWEST, OLDER), Apply(1_300_000)),  # 300,000 records are applied sooner than 100 MB are copied
        (900_000, (replace(NEWEST, size=1_000_000), OLDER), Load(replace(NEWEST, size=1_000_000))),
    ],
)
def test_newest_snapshot_is_loaded_where_that_is_quicker_than_the_changelog(position, snapshots, first):
    steps = list(SnapshotRestore().steps(RestoreRequest("s", 0, position, 1_300_000, (), snapshots)))
    assert steps[0] == first
    assert steps[-1] == Apply(1_300_000)


@pytest.mark.parametrize(
    ("options", "epochs", "size", "wanted"),
    [
        ({}, 10_000, EVERY_BYTES - 1, None),
        ({}, 1, EVERY_BYTES, Save(2)),
        ({"every_epochs": 5}, 4, EVERY_BYTES, None),
        ({"every_epochs": 5, "keep": 3}, 5, 1, Save(3)),
        ({"every_epochs": 5, "every_bytes": 100}, 1, 100, Save(2)),
    ],
)
def test_snapshot_is_due_by_epochs_or_bytes_whichever_comes_first(options, epochs, size, wanted):
    assert SnapshotRestore(**options).save(Unsaved("s", 0, 7, epochs, size)) == wanted


def test_large_store_is_not_copied_again_for_every_small_change():
    large = replace(NEWEST, size=10 * EVERY_BYTES)
    unsaved = Unsaved("s", 0, 7, 10, 5 * EVERY_BYTES - 1, (large, OLDER))
    assert SnapshotRestore().save(unsaved) is None
    assert SnapshotRestore().save(replace(unsaved, size=5 * EVERY_BYTES)) == Save(2)
    assert SnapshotRestore(every_bytes=EVERY_BYTES).save(unsaved) == Save(2)
