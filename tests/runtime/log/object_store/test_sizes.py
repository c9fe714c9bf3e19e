"""Objects that are too many or too big for one request, or smaller than they were, on a real server."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from headwater.runtime.log.commit.external_records import AppendRecord
from headwater.runtime.log.errors import CorruptSegmentError, RangeMissingError
from headwater.runtime.log.inspection.verification import Verification
from headwater.runtime.log.log import snapshot_path
from headwater.runtime.log.object_store.log import ObjectStoreLog
from headwater.runtime.log.object_store.objects import threads
from headwater.runtime.log.segments.files import BATCH_ROWS
from headwater.runtime.log.state import LogState
from headwater.tests.s3_proxy import LOSE, Proxy, proxy
from headwater.tests.s3_server import S3Server

BIG = 12 << 20
"""Bytes that are sent in two parts."""


@pytest.fixture(params=["folder", "bucket"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStoreLog:
    """A log in a folder, and one on a server."""
    if request.param == "folder":
        log = ObjectStoreLog((tmp_path / "log").as_uri())
    else:
        server: S3Server = request.getfixturevalue("s3")
        log = ObjectStoreLog(**{"uri": server.uri(uuid.uuid4().hex)} | server.options)
    log.check()
    return log


@pytest.mark.parametrize(
    "part", ["nothing", "half a schema", "the schema", "half a batch", "a batch", "all but a byte"]
)
def test_segment_that_was_cut_off_is_said_to_be_damaged_wherever_it_ends(
    kept: ObjectStoreLog, records: Callable[..., pa.Table], part: str
) -> None:
    state = LogState.load(kept.commits("a"))
    partitions = np.repeat([0, 1], BATCH_ROWS + 1)
    state.commit(AppendRecord(0, kept.write("a", "t", "s-1", records(len(partitions)), partitions, 0)))
    (path,) = state.paths()
    (first, second), objects = state.segments(), kept._objects
    whole, batch, last = objects.get(path), first.batches[0], second.batches[-1]
    assert whole is not None
    sizes = {
        "nothing": 0,
        "half a schema": first.head // 2,
        "the schema": first.head,
        "half a batch": batch.start + batch.length // 2,
        "a batch": batch.start + batch.length,
        "all but a byte": last.start + last.length - 1,  # of what is read: Arrow ends a file with a mark
    }
    objects.put(path, whole[: sizes[part]])
    for partition in (0, 1) if part != "all but a byte" else (1,):
        (within,) = state.ranges("t", partition)
        for reader in (kept, kept.ahead([(within, within.start)])):
            with pytest.raises(CorruptSegmentError):
                list(reader.read(within))
    (application,) = Verification(kept).run()
    assert {damage.place.partition for damage in application.damages if damage.place} == (
        {0, 1} if part != "all but a byte" else {1}
    )
    objects.remove([path])
    (within,) = state.ranges("t", 0)
    with pytest.raises(RangeMissingError):
        list(kept.read(within))


@pytest.fixture
def between(s3: S3Server) -> Iterator[Proxy]:
    with proxy(s3) as found:
        yield found


@pytest.fixture
def log(s3: S3Server, between: Proxy) -> ObjectStoreLog:
    log = ObjectStoreLog(**{"uri": s3.uri(uuid.uuid4().hex)} | s3.options | {"endpoint": between.endpoint})
    log.check()
    return log


def test_big_segment_is_sent_in_parts_and_read_in_several_requests_even_if_the_last_answer_is_lost(
    log: ObjectStoreLog, between: Proxy, records: Callable[..., pa.Table]
) -> None:
    count = BIG // 16
    noise = np.random.default_rng(1).integers(0, 2**62, count)  # which is not compressed
    table = records(count, **{"value.v": pa.array(noise)})
    lost = iter([LOSE])
    between.fault = lambda each: next(lost, None) if each.method == "POST" and "uploadId" in each.query else None
    state = LogState.load(log.commits("a"))
    state.commit(AppendRecord(0, log.write("a", "t", "s-1", table, 0, 0)))
    assert len([each for each in between.seen if "partNumber" in each.query]) > 1
    assert next(lost, None) is None
    (within,) = state.ranges("t", 0)
    between.seen.clear()
    found = np.concatenate([each.records["value.v"].to_numpy() for each in log.read(within, None, ["value.v"])])
    assert np.array_equal(found, noise)
    assert 1 < len(between.seen) < 12
    with pytest.raises(FileExistsError):
        log.write("a", "t", "s-1", table, 0, 0)


def test_big_file_is_sent_in_parts(log: ObjectStoreLog) -> None:
    content = np.random.default_rng(2).bytes(BIG)
    path = snapshot_path("a", "totals", "one")

    def fill(to: Path) -> None:
        to.write_bytes(content)

    assert log.save_file(path, fill).size == BIG
    assert b"".join(map(bytes, log.read_file(path, 5))) == content[5:]
    with pytest.raises(FileExistsError):
        log.save_file(path, fill)


def test_more_files_than_a_listing_has_are_all_found_and_dropped(
    log: ObjectStoreLog, records: Callable[..., pa.Table]
) -> None:
    one = records(1)
    written = threads().map(lambda number: log.write("a", "t", f"s-{number}", one, 0, 0), range(1_050))
    assert sum(map(len, written)) == 1_050
    assert len(list(log.files("a"))) == 1_050
    log.drop("a")
    assert list(log.files("a")) == []


def test_state_is_loaded_with_one_request_for_a_commit_and_many_at_the_same_time(
    log: ObjectStoreLog, between: Proxy
) -> None:
    state = LogState.load(log.commits("a"))
    for at in range(40):
        state.commit(AppendRecord(at, ()))
    between.seen.clear()
    assert LogState.load(log.commits("a")).number == 40
    counts = between.counts()
    assert counts["GET"] == 40
    assert counts["HEAD"] + counts["LIST"] < 8
