"""What happens to a store's file between two epochs: the result is that of a run that nothing has happened to."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from summing import PARTITIONS, RECORDS, SUMS, WHOLE_SUMS, fed, last_sums, summed
from test_rebalance import Story

from headwater.runtime.local.cluster import LocalCluster
from headwater.runtime.state.lmdb.store import LmdbStore


def stores(root: Path) -> list[Path]:
    return sorted(path.parent for path in (root / "state/client-1/test-app").glob("totals/[0-9]/data.mdb"))


def deleted_files(root: Path) -> None:
    for path in stores(root):
        (path / "data.mdb").unlink()


def deleted_stores(root: Path) -> None:
    for path in stores(root):
        shutil.rmtree(path)


def older_copies(root: Path) -> None:
    for path in stores(root):
        older = path.with_name(f"older-{path.name}")
        shutil.rmtree(path)
        shutil.copytree(older, path)


def newer_copies(root: Path) -> None:
    for path in stores(root):
        store = LmdbStore(path)
        store.apply([([b"never committed"], [b"v"])], store.position, store.position + 1000)


@pytest.mark.parametrize("happens", [deleted_files, deleted_stores, older_copies, newer_copies])
def test_store_that_is_another_between_two_epochs_is_restored(application, happens: Callable[[Path], None]) -> None:
    app = fed(application(summed()))

    def then(commits: int) -> None:
        if commits == 3:
            for path in stores(app.path):
                shutil.copytree(path, path.with_name(f"older-{path.name}"))
        if commits == 6:
            happens(app.path)

    result = app.attempt(app.settings(max_records=3), LocalCluster(), Story(then))
    assert (result.status, result.error, result.waiting) == ("caught_up", None, 0)
    assert last_sums(app) == WHOLE_SUMS
    assert len(app.read(SUMS)) == RECORDS * PARTITIONS
    app.run()
    assert last_sums(app) == WHOLE_SUMS
