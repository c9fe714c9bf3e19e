"""The broker of the tests does what Kafka does, for all processes of the run, and ends with the last of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headwater.tests.kafka.broker import KafkaBroker
from headwater.tests.processes import has_ended
from headwater.tests.waiting import wait_until

pytestmark = pytest.mark.kafka

USE = """
import sys
from pathlib import Path
from headwater.tests.kafka.shared_server import shared_broker
with shared_broker(Path(sys.argv[1])) as broker:
    print(broker.pid, flush=True)
    sys.stdin.read()
"""


def user(folder: Path) -> subprocess.Popen[str]:
    """A process that uses the shared broker until its input ends."""
    command = [sys.executable, "-c", USE, folder]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def broker_of(process: subprocess.Popen[str]) -> int:
    return int(process.stdout.readline())


def test_what_one_tool_writes_another_one_reads(kafka: KafkaBroker) -> None:
    topic = kafka.topic(partitions=2)
    kafka.tool("kafka-console-producer", "--topic", topic, standard_input="one\ntwo\n")
    read = kafka.tool("kafka-console-consumer", "--topic", topic, "--from-beginning", "--max-messages", "2")

    assert sorted(read.split()) == ["one", "two"]
    assert "PartitionCount: 2" in kafka.tool("kafka-topics", "--describe", "--topic", topic)


@pytest.mark.usefixtures("kafka")
def test_processes_share_a_broker_that_ends_with_the_last_even_if_that_is_killed(tmp_path: Path) -> None:
    first, second = user(tmp_path / "shared"), user(tmp_path / "shared")
    broker = broker_of(first)
    assert broker_of(second) == broker

    first.stdin.close()
    first.wait()
    third = user(tmp_path / "shared")
    assert broker_of(third) == broker
    for process in (second, third):
        process.kill()
        process.wait()
    wait_until(lambda: has_ended(broker))
