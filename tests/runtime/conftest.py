import itertools

import numpy as np
import pyarrow as pa
import pytest

from headwater.runtime.ir.topology import Topic
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.segments.segment import Batch, Segment
from headwater.runtime.query.topics import TopicReader
from headwater.tests.runtime.local.local_application import LocalApplication


@pytest.fixture
def log(tmp_path):
    return EmbeddedLog(tmp_path / "log")


@pytest.fixture
def records():
    """A function that makes a table of records: `rows` of them, as a topic with one key and one value column."""

    def table(rows, **extra):
        timestamps = np.arange(rows) * 10
        columns = {
            "key.k": pa.array([f"k{row % 7}" for row in range(rows)]),
            "value.v": pa.array(np.arange(rows)),
            "_kind": pa.array(np.ones(rows, np.int8)),
            "_timestamp": pa.array(timestamps),
            "_order": pa.array(timestamps + 5),
        }
        return pa.table(columns | extra)

    return table


@pytest.fixture
def segment():
    """A function that makes a segment of `rows` records that is nowhere on disk."""

    def make(rows, topic="t", partition=0, lane=0, path="p.seg"):
        return Segment(topic, partition, lane, path, (Batch(0, 1, rows, 0, 0, 0, 0),))

    return make


@pytest.fixture
def flights():
    """A topic that is fed from outside, timed by a column of its value."""
    return Topic(
        "flights", partitions=4, key="carrier string", value="flight int, delay double, at timestamp", timestamp="at"
    )


@pytest.fixture
def airlines():
    """A topic that is fed from outside, without a column for the time."""
    return Topic("airlines", partitions=3, key="carrier string", value="name string")


@pytest.fixture
def read(log):
    """A function that gives all committed records of a topic, by partition and offset."""

    def records(topic, **options):
        found = TopicReader(log, "demo-seed", topic, **options).read()
        return sorted(found, key=lambda record: (record.partition, record.offset))

    return records


@pytest.fixture
def application(tmp_path):
    """A function that makes an application of parts, each with a log of its own."""
    numbers = itertools.count()
    return lambda *parts, **options: LocalApplication(tmp_path / f"application-{next(numbers)}", parts, **options)
