"""A store whose rows come and go, and copies of it that stay away for any time: driven at random against a model.

Deletions are dropped from the changelog as soon as they may be. Copies stop anywhere on their way, hold plans of long
ago, are saved and loaded, and their machine is started again. A copy that comes to the end has the model's rows, and
so has a query, which takes the furthest copy that there is.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headwater.runtime.log.cleaning.compaction import Limits
from headwater.runtime.log.state_parts import folded as folding
from headwater.runtime.state import closed_stores as horizon
from headwater.tests.runtime.log.cleaning.deleting import ACTIVE, KEPT_MS, Shop

copies = st.sampled_from(["a", "b"])
keys = st.integers(0, 3)
changes = st.lists(st.tuples(keys, st.one_of(st.none(), st.integers(0, 9))), max_size=4)


class DeletionsMachine(RuleBasedStateMachine):
    """The rules are what drivers, clients and clocks do, in any order."""

    @initialize()
    def begin(self) -> None:
        self.root = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(folding, "SNAPSHOT_EVERY", 3)
        self.patch.setattr(folding, "AT_MOST", 6)
        self.boots = 0
        self.patch.setattr(horizon, "boot_id", lambda: f"boot {self.boots}")
        # So few rows in a segment that there are several clean ones, and each is merged when there is another.
        self.shop = Shop(self.root, Limits(fan_out=2, rows=4))

    @rule(written=st.lists(changes, min_size=1, max_size=3))
    def epochs(self, written: list[list[tuple[int, int | None]]]) -> None:
        for each in written:
            self.shop.epoch(*each)

    @rule()
    def close(self) -> None:
        """The active copy applies what is committed, and an epoch without changes says so."""
        self.shop.epoch()

    @rule(after=st.sampled_from([0, KEPT_MS // 2, KEPT_MS, -3 * KEPT_MS]))
    def clean(self, after: int) -> None:
        self.shop.clean(after)

    @rule(deleted=st.lists(keys, min_size=1))
    def stay_away(self, deleted: list[int]) -> None:
        """A copy misses that rows go, and their deletions."""
        for _ in range(3):  # so much that the lane is compacted
            self.shop.epoch(*((key, None) for key in deleted))
        for _ in range(3):
            self.shop.epoch()
            self.shop.clean(KEPT_MS)

    @rule(name=copies, records=st.integers(1, 4), times=st.integers(1, 3))
    def follow(self, name: str, records: int, times: int) -> None:
        """A copy is brought nearer to the end, maybe with a plan that was made some time ago."""
        copy = self.shop.copy(name)
        for _ in range(times):
            if copy.position == self.shop.end:
                break
            target = copy.held or self.shop.plan(copy, records)
            copy.held = None
            self.shop.ask("restore", copy, target)

    @rule(name=copies, records=st.integers(1, 4))
    def plan(self, name: str, records: int) -> None:
        """A plan for a copy is made, which reaches it later."""
        copy = self.shop.copy(name)
        if copy.position < self.shop.end:
            copy.held = self.shop.plan(copy, records)

    @rule(name=st.sampled_from(["a", "b", ACTIVE]))
    def save(self, name: str) -> None:
        if (copy := self.shop.copy(name)).position:
            self.shop.save(copy)

    @rule(name=copies)
    def take(self, name: str) -> None:
        copy = self.shop.copy(name)
        copy.held = None
        self.shop.take(copy)

    @rule(name=copies)
    def lose(self, name: str) -> None:
        """A copy is wiped, or its disk is another one."""
        copy = self.shop.copy(name)
        copy.held = None
        self.shop.ask("wipe", copy, self.shop.plan(copy))

    @rule()
    def boot(self) -> None:
        self.boots += 1

    @rule()
    def load(self) -> None:
        """Another process goes on."""
        self.shop.load()

    @invariant()
    def copies_at_the_end_have_the_rows(self) -> None:
        if hasattr(self, "shop"):
            for copy in self.shop.copies.values():
                if copy.position == self.shop.end:
                    assert self.shop.rows_of(copy) == self.shop.rows

    @rule()
    def query(self) -> None:
        assert self.shop.queried() == self.shop.rows

    def teardown(self) -> None:
        if not hasattr(self, "shop"):
            return
        try:
            assert self.shop.queried() == self.shop.rows
            for copy in self.shop.copies.values():
                self.shop.bring(copy)
                assert self.shop.rows_of(copy) == self.shop.rows
        finally:
            self.patch.undo()
            shutil.rmtree(self.root)


TestDeletions = DeletionsMachine.TestCase
TestDeletions.settings = settings(max_examples=settings().max_examples // 2)
