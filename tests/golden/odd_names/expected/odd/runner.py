"""Runs topology odd of project odd 2.

`headwater run` runs it; so do `python runner.py` and `spark-submit runner.py` (`--help` lists options).

Made by `headwater compile` from topologies/odd.yml and profiles.yml: change those files, not this one.
"""

import sys
from pathlib import Path

from headwater.runtime import Assignment, PluginRef, Settings, Topology, main
from job import SUBTOPOLOGIES

PROJECT = Path(__file__).resolve().parents[2]

TOPOLOGY = Topology(
    project="odd",
    name="odd",
    version="2",
    content_hash="23f269cd6056b259e191b03076fabe2961e38eaf5122eb345711200e6235a2f1",
    subtopologies=SUBTOPOLOGIES,
    assignment=Assignment(
        standby_replicas=1,
        max_warmup_replicas=3,
        rack_aware_strategy="balance_subtopology",
        rack_aware_tags=("zone",),
        rack_aware_traffic_cost=10,
        rack_aware_non_overlap_cost=1,
    ),
)

SETTINGS = Settings(
    log=PluginRef("embedded", {"path": str(PROJECT / ".headwater/log")}),
    state_dir=str(PROJECT / ".headwater/state"),
    clients=2,
    epoch_interval_ms=2000,
    max_records=1000,
    spark={"master": "local[2]", "sql.shuffle.partitions": 2},
)

if __name__ == "__main__":
    sys.exit(main(TOPOLOGY, SETTINGS))
