"""A count and sum by key as a project, on the embedded log, with records that are appended before it runs.

The run takes a quarter of a million from each of the four partitions an epoch. The last epochs cannot take all of that,
as partitions differ a little.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from headwater import Project

from .records import PARTITIONS, PER_EPOCH, epoch

STEPS: dict[str, list[dict[str, Any]]] = {
    "plain": [],
    "sql": [{"filter": "v >= 10"}, {"with_columns": {"v": "v * 2 + 1"}}],
}
AGGREGATE = {"aggregate": {"values": {"n": "count(*)", "total": "sum(v)"}}}


def write_project(root: Path, variant: str, clients: int = 1, standbys: int = 0) -> None:
    """The project's files. `clients`: among which the two cores are divided; `standbys`: copies of each task."""
    local = {
        "spark": {"master": "local[2]", "driver.memory": "4g"},
        "log": {"type": "embedded", "path": "log"},
        "state_dir": "state",
        "clients": clients,
        "epoch": {"interval": "1ms", "max_records": PER_EPOCH // PARTITIONS},
    }
    records = {
        "partitions": PARTITIONS,
        "key": {"k": "string"},
        "value": {"v": "bigint", "ts": "timestamp"},
        "timestamp": "ts",
    }
    totals = {"from": "records", "steps": [*STEPS[variant], AGGREGATE], "to": "totals_by_key"}
    files = {
        "headwater.yml": {"name": "benchmark", "version": "1", "profile": "benchmark"},
        "profiles.yml": {"benchmark": {"target": "local", "targets": {"local": local}}},
        "topics/records.yml": {"topics": {"records": records}},
        "topologies/totals.yml": {
            "topology": "totals",
            "assignment": {"standby_replicas": standbys},
            "flows": {"totals": totals},
        },
    }
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(yaml.safe_dump(content, sort_keys=False))


def append_epochs(root: Path, epochs: int) -> None:
    """Append the records of so many epochs."""
    with Project.load(root) as project:
        for number in range(epochs):
            project.append("records", pa.concat_tables([epoch(number, each) for each in range(PARTITIONS)]))
