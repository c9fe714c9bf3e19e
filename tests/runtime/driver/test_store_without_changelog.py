"""A store with `changelog: {enabled: false}`, end to end: what it holds, what is left on disk, what a loss means."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headwater import Project
from headwater.tests.runtime.driver.folders import SUMS_AND_COUNTS, orders, target, write_project

PRODUCTS = ["ax", "bow", "cup"]


@pytest.fixture
def shop(tmp_path: Path, local: Any) -> Project:
    files = {"topics/orders.yml": {"topics": orders(partitions=2)}, "topologies/sales.yml": SUMS_AND_COUNTS}
    write_project(tmp_path, "shop", {"local": target(max_records=7)}, files)
    return Project.load(tmp_path, session=local)


def order(shop: Project, rounds: int) -> None:
    """`rounds` orders of one piece of each product, and all of them processed."""
    records = [{"key": {"product": product}, "value": {"pieces": 1}} for _ in range(rounds) for product in PRODUCTS]
    shop.append("orders", records)
    results = shop.run(until_caught_up=True)
    assert not results.failed, results


def last(shop: Project, topic: str) -> dict[str, Any]:
    return {r.key["product"]: next(iter(r.value.values())) for r in shop.read(topic) if r.key and r.value}


def rows(shop: Project, store: str) -> dict[str, Any]:
    return {row.key["product"]: next(iter(row.value.values())) for row in shop.query(store)}


def files(shop: Project, store: str) -> list[Path]:
    return sorted((shop.root / "log/segments/shop-sales" / f"shop-sales-{store}-changelog").glob("*.seg"))


def test_store_counts_over_epochs_and_restarts_and_leaves_one_file_for_each_task(shop: Project) -> None:
    order(shop, 10)
    order(shop, 5)
    everything = dict.fromkeys(PRODUCTS, 15)
    assert last(shop, "sold_pieces") == rows(shop, "forgetful") == everything
    partitions = {path.name.split("-")[-2] for path in files(shop, "lasting")}
    assert len(files(shop, "lasting")) > 4
    assert len(files(shop, "forgetful")) == len(partitions)


def test_lost_store_starts_empty_and_its_neighbour_is_restored(shop: Project) -> None:
    order(shop, 10)
    shutil.rmtree(shop.root / "state")
    assert rows(shop, "forgetful") == {}
    assert rows(shop, "lasting") == dict.fromkeys(PRODUCTS, 10)
    order(shop, 2)
    assert last(shop, "sold_pieces") == rows(shop, "forgetful") == dict.fromkeys(PRODUCTS, 2)
    assert last(shop, "order_counts") == rows(shop, "lasting") == dict.fromkeys(PRODUCTS, 12)


def test_copy_from_before_the_changes_that_are_gone_counts_as_lost(shop: Project) -> None:
    order(shop, 5)
    shutil.copytree(shop.root / "state", shop.root / "old")
    order(shop, 10)
    shutil.rmtree(shop.root / "state")
    shutil.move(shop.root / "old", shop.root / "state")
    assert rows(shop, "forgetful") == {}
    order(shop, 1)
    assert last(shop, "sold_pieces") == rows(shop, "forgetful") == dict.fromkeys(PRODUCTS, 1)


def test_store_whose_changelog_is_switched_on_is_computed_again_and_can_be_restored_then(shop: Project) -> None:
    order(shop, 10)
    text = (shop.root / "topologies/sales.yml").read_text().replace("enabled: false", "enabled: true")
    (shop.root / "topologies/sales.yml").write_text(text)
    changed = Project.load(shop.root, session=shop._spark.session())
    order(changed, 2)
    shutil.rmtree(shop.root / "state")
    order(changed, 1)
    everything = dict.fromkeys(PRODUCTS, 13)
    assert last(changed, "sold_pieces") == rows(changed, "forgetful") == rows(changed, "lasting") == everything


def test_log_and_state_that_may_not_be_written_are_read_and_queried(shop: Project) -> None:
    order(shop, 3)
    folders = [path for path in (shop.root, *shop.root.rglob("*")) if path.is_dir()]
    before = {path: path.read_bytes() for path in shop.root.rglob("*") if path.is_file()}
    for path in (*before, *folders):
        path.chmod(path.stat().st_mode & 0o555)
    try:
        read, lasting, forgetful = printed(shop, "read sold_pieces --limit 2", "query lasting", "query forgetful")
    finally:
        for path in (*before, *folders):
            path.chmod(path.stat().st_mode | 0o200)
    assert (read, lasting, forgetful) == (2, len(PRODUCTS), len(PRODUCTS))
    assert {path: path.read_bytes() for path in shop.root.rglob("*") if path.is_file()} == before


COMMANDS = """
import sys
from click.testing import CliRunner
from headwater.cli.main import main

for command in sys.argv[2:]:
    done = CliRunner().invoke(main, [*command.split(), "--project-dir", sys.argv[1], "--format", "json"])
    assert done.exit_code == 0, done.output
    print(sum(line.startswith("{") for line in done.stdout.splitlines()))
"""


def printed(shop: Project, *commands: str) -> list[int]:
    """How many lines of JSON each command prints for a user who has no rights but those of the files."""
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS, str(shop.root), *commands],
        capture_output=True,
        text=True,
        preexec_fn=without_roots_rights,
    )
    assert done.returncode == 0, done.stderr
    return [int(line) for line in done.stdout.splitlines()]


def without_roots_rights() -> None:
    """Give up, for the program to start, what lets root pass over the rights of files; nothing, for other users."""
    libc = ctypes.CDLL(None)
    for capability in (1, 2, 3):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER
        libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
