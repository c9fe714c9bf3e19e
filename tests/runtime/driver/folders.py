"""Project folders for runs on this machine: a file for each name, and what several projects declare alike."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

SUMS_AND_COUNTS: dict[str, Any] = {
    "topology": "sales",
    "stores": {
        "forgetful": {"type": "key_value", "changelog": {"enabled": False}},
        "lasting": {"type": "key_value"},
    },
    "flows": {
        "sold": {
            "from": "orders",
            "steps": [{"aggregate": {"store": "forgetful", "values": {"pieces": "sum(pieces)"}}}],
            "to": "sold_pieces",
        },
        "ordered": {
            "from": "orders",
            "steps": [{"aggregate": {"store": "lasting", "values": {"orders": "count(*)"}}}],
            "to": "order_counts",
        },
    },
}
"""Orders by product, aggregated into a store without a changelog and into one that has it."""


def orders(partitions: int) -> dict[str, Any]:
    """The topic that SUMS_AND_COUNTS reads, as an entry of `topics:`."""
    return {"orders": {"partitions": partitions, "key": {"product": "string"}, "value": {"pieces": "bigint"}}}


def target(log: str = "log", **epoch: Any) -> dict[str, Any]:
    """A target of a profile: a local master, the log in the folder `log`. `epoch`: its settings."""
    return {
        "spark": {"master": "local[2]"},
        "log": {"type": "embedded", "path": log},
        "state_dir": "state",
        "epoch": {"interval": "10ms", **epoch},
    }


def write_project(root: Path, name: str, targets: Mapping[str, Any], files: Mapping[str, Any]) -> None:
    """A project whose profile has these targets, the first of them by default. `files`: text, or data for YAML."""
    everything = {
        "headwater.yml": {"name": name, "version": "1", "profile": name},
        "profiles.yml": {name: {"target": next(iter(targets)), "targets": dict(targets)}},
        **files,
    }
    for path, content in everything.items():
        text = content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False, width=1000)
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
