import json
from dataclasses import replace

import pytest

from headwater.runtime.log.commit.descriptions import (
    ExternalTopic,
    SubtopologyDescription,
    TopologyDescription,
    UsedTopic,
)
from headwater.runtime.log.commit.encoding import decode_commit, dump, encode_commit
from headwater.runtime.log.commit.external_records import AppendRecord, SeedSource
from headwater.runtime.log.commit.records import (
    Beginning,
    EpochRecord,
    GenerationRecord,
    PlacesRecord,
    Purged,
    PurgeRecord,
    Renames,
    RewindRecord,
    RewriteRecord,
    SnapshotRecord,
    StoreResetRecord,
    StoreSnapshot,
    TaskCommit,
    TopicRemovalRecord,
)
from headwater.runtime.log.errors import CommitFormatError
from headwater.runtime.log.places import Places
from headwater.runtime.log.segments.segment import Batch, Segment

SEGMENT = Segment(
    topic="hourly",
    partition=3,
    lane=1,
    path="segments/a/hourly/g1-e2-late-1-a0.seg",
    batches=(Batch(400, 100, 7, 10, 20, 15, 25, 4132891814), Batch(500, 60, 3, 11, 12, 26, 27, 0)),
    headers=True,
    base_offset=70,
    base_position=12,
    head=400,
    head_checksum=17,
)
LATE = SubtopologyDescription(4, ("flights",), ("hourly",), ("delays",))
TASK = TaskCommit(
    subtopology="late",
    partition=1,
    positions={"flights": {0: 12}, "hourly": {0: 3, 5: 9}},
    stream_time=-1,
    clocks={"hourly:2": 99},
    segments=(SEGMENT,),
    dropped={"join:null key": 2},
    applied={"delays": 4},
    globals_={"airports": {0: 5}},
    records=24,
)


@pytest.mark.parametrize(
    "record",
    [
        GenerationRecord(2, 1_700_000_000_000, TopologyDescription("é", subtopologies={"late": LATE})),
        EpochRecord(2, 17, 1_700_000_000_000, (TASK, TaskCommit("late", 2, {}, 5))),
        AppendRecord(
            5,
            (SEGMENT,),
            SeedSource("t", "h", "p"),
            ExternalTopic(name="t", partitions=4, key="", value=""),
            replace=True,
        ),
        SnapshotRecord(
            2, 5, (StoreSnapshot("s", 1, 99, "snapshots/a/s/x.snap", 4096, 7, "lmdb", 5),), ("old",), "cafe"
        ),
        AppendRecord(5, ()),
        GenerationRecord(1, 2, renamed=Renames({"p-a": "p-b"}, topics={"p-a-s-changelog": "p-b-s-changelog"})),
        PlacesRecord(5, Places({"p-a": "p-b"}, {"p-c": 7}, {"p-a": 2})),
        GenerationRecord(1, 2, begins=(Beginning("late", "flights", {0: {0: 7}}),)),
        RewindRecord(3, 5, "late", "flights", {0: {0: 7}, 3: {0: 2, 1: 9}}, "abc"),
        TopicRemovalRecord(2, 5, "flights", "abc"),
        StoreResetRecord(2, 5, ("delays", "totals"), "abc"),
        PurgeRecord(2, 5, (Purged("p-t-s-repartition", 3, {0: 12, 4: 9}),), "abc"),
        RewriteRecord(2, 5, (replace(SEGMENT, span=30, offset_span=99, firsts=(12, 25)), SEGMENT), "abc"),
    ],
)
def test_commit_written_and_read_is_the_same(record):
    assert decode_commit(encode_commit(record)) == record


def test_commit_of_another_format_is_refused_with_both_formats():
    body = json.loads(encode_commit(GenerationRecord(1, 2)))
    with pytest.raises(CommitFormatError, match="format 11, this version reads formats up to 10") as caught:
        decode_commit(json.dumps(body | {"format": 11}).encode())
    assert (caught.value.found, caught.value.supported) == (11, 10)


def test_commit_has_the_oldest_format_that_can_read_it():
    """So the versions before refuse what they do not know, and do not take it for damage."""
    records = [GenerationRecord(1, 2), EpochRecord(1, 2, 3, ()), SnapshotRecord(1, 2), PurgeRecord(1, 2, ())]
    records += [RewriteRecord(1, 2, ()), PlacesRecord(1), GenerationRecord(1, 2, renamed=Renames())]
    fed = ExternalTopic(name="t", partitions=1, key="k int", value="v bigint")
    other_columns = replace(fed, earlier=("v int",))
    written = TopologyDescription(topics={"t": UsedTopic(partitions=1, key="", value="v int", earlier=("v date",))})
    records += [
        AppendRecord(1, (), topic=fed),
        AppendRecord(1, (), topic=other_columns),
        GenerationRecord(1, 2, written),
        RewindRecord(1, 2, "late", "flights", {}),
        TopicRemovalRecord(1, 2, "flights"),
        StoreResetRecord(1, 2, ("totals",)),
        EpochRecord(1, 2, 3, (), ends={"kafka:main:t": (4,)}),
        GenerationRecord(1, 2, ends={"kafka:main:t": (4,)}),
        GenerationRecord(
            1, 2, TopologyDescription(topics={"t": UsedTopic(partitions=1, key="", value="", kafka_id="")})
        ),
    ]
    formats = [json.loads(encode_commit(record))["format"] for record in records]
    assert formats == [1, 1, 2, 2, 3, 4, 4, 1, 4, 4, 6, 6, 9, 10, 10, 10]


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff", b"[]", b"{}", b'{"format":1}', b'{"format":1,"type":"x"}', b'{"format":1,"type":"epoch","at":1}'],
)
def test_bytes_that_are_no_commit_are_refused(data):
    with pytest.raises(CommitFormatError):
        decode_commit(data)


def test_any_changed_byte_of_a_commit_is_found():
    data = encode_commit(EpochRecord(2, 17, 1_700_000_000_000, (TASK,)))
    for at in range(data.index(b',"crc32"')):
        with pytest.raises(CommitFormatError):
            decode_commit(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])


def test_commit_without_a_checksum_is_refused():
    body = json.loads(encode_commit(AppendRecord(5, (SEGMENT,))))
    del body["crc32"]
    with pytest.raises(CommitFormatError):
        decode_commit(json.dumps(body).encode())


def test_epoch_from_before_it_had_an_incarnation_is_read():
    record = EpochRecord(3, 4, 5, ())
    body = json.loads(encode_commit(record))
    del body["crc32"], body["format"], body["incarnation"]
    assert decode_commit(dump(body)) == record
