"""A project that copies a topic from Kafka and another one to it, and what `headwater debug kafka` says of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from headwater.cli.main import main

PROFILES = """shop:
  target: prod
  targets:
    local: {{}}
    prod:
      kafka:
        main:
          bootstrap_servers: {servers}
"""
TOPICS = """topics:
  orders:
    partitions: 2
    key: {{customer: string}}
    value: {{quantity: int}}
    seed: {{path: orders.csv}}
    kafka: {{topic: {read}, key: string}}
  totals:
    partitions: 2
    key: {{customer: string}}
    value: {{quantity: int}}
    kafka: {{topic: {written}}}
"""
SALES = """topology: sales
flows:
  all_of_them:
    from: orders
    steps:
      - filter: quantity > 0
    to: totals
"""


def shop_project(root: Path, servers: str, read: str, written: str, security: str = "") -> None:
    """Write a project that copies `read` to `orders`, and `totals` to `written`. `security`: lines of the profile."""
    texts = {
        "headwater.yml": 'name: shop\nversion: "1"\nprofile: shop\n',
        "profiles.yml": PROFILES.format(servers=servers) + security,
        "topics/all.yml": TOPICS.format(read=read, written=written),
        "topologies/sales.yml": SALES,
        "orders.csv": "customer,quantity\na,1\n",
    }
    for name, text in texts.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)


def debug(root: Path, servers: str, read: str, written: str, *options: str, security: str = "") -> Result:
    """Run `debug kafka` in such a project."""
    shop_project(root, servers, read, written, security)
    return CliRunner().invoke(main, ["debug", "kafka", "--project-dir", str(root), *options])


def reported(result: Result) -> Mapping[str, Any]:
    """The report of the one cluster, by topic."""
    (report,) = json.loads(result.stdout)
    return {**report, "topics": {topic["name"]: topic for topic in report["topics"]}}
