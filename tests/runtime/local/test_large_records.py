"""Records of many bytes: how much of them an epoch takes, and how much memory that is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

TOPOLOGY = {
    "topology": "case",
    "flows": {
        "copied": {
            "from": "texts",
            "steps": [{"select": {"k": "k", "text": "text"}}],
            "to": "copies",
        },
        "measured": {
            "from": "texts",
            "steps": [
                {"key_by": {"k": "k"}},
                {"aggregate": {"values": {"n": "count(*)", "most": "max(length(text))"}}},
            ],
            "to": "longest",
        },
    },
}

RUN = """
import json, random, sys
from pathlib import Path
import pyarrow as pa
from conformance.driving import Compiled
from headwater.runtime.ingest.incoming import from_table

root, count, size, max_bytes = Path(sys.argv[1]), *map(int, sys.argv[2:])


def memory(name):
    return next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith(name))


def peak(action):
    Path("/proc/self/clear_refs").write_text("5")  # the peak is that of what follows
    before = memory("VmRSS")
    action()
    return memory("VmHWM") - before


with Compiled(root, "case").driven(max_bytes=max_bytes) as driven:
    topic = driven.surface.read["texts"]
    text = random.Random(1).randbytes(size // 2).hex()

    def records():
        for number in range(count):
            columns = {"id": [str(number)], "k": [str(number % 2)], "text": [text]}
            yield from_table(topic, pa.table(columns), number)

    appended = peak(lambda: driven.topology.take((topic, records())))
    taken = peak(lambda: driven.topology.feed([]))
    longest = [(each.key["k"], each.value["n"], each.value["most"]) for each in driven.written("longest")]
print(json.dumps({"appended": appended, "taken": taken, "longest": longest[-2:]}))
"""


def write(root: Path) -> None:
    """The project."""
    columns = {"k": "string", "text": "string"}
    files = {
        "headwater.yml": {"name": "large", "version": "1", "profile": "large"},
        "profiles.yml": {"large": {"target": "t", "targets": {"t": {"log": {"type": "embedded", "path": "log"}}}}},
        "topics/inputs.yml": {"topics": {"texts": {"partitions": 1, "key": {"id": "string"}, "value": columns}}},
        "topologies/case.yml": TOPOLOGY,
    }
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(yaml.safe_dump(content, sort_keys=False))


def run(root: Path, count: int, size: int, max_bytes: int) -> dict[str, object]:
    """What a process finds that takes so many records of so many bytes."""
    write(root)
    arguments = [sys.executable, "-c", RUN, str(root), *map(str, (count, size, max_bytes))]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.soak
def test_texts_of_more_than_any_array_holds_are_taken_within_the_memory_of_epochs(tmp_path: Path) -> None:
    found = run(tmp_path, 24, 100 << 20, 256 << 20)
    assert found["longest"] == [["0", 12, 100 << 20], ["1", 12, 100 << 20]]
    assert int(str(found["taken"])) <= 4 * (256 << 20), found
    assert int(str(found["appended"])) <= 4 * (256 << 20), found
