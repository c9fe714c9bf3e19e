"""Runs topology fleet of project flights 1.0.

`headwater run` runs it; so do `python runner.py` and `spark-submit runner.py` (`--help` lists options).

Made by `headwater compile` from topologies/fleet.yml and profiles.yml: change those files, not this one.
"""

import sys
from pathlib import Path

from headwater.runtime import PluginRef, Settings, Topology, main
from job import SUBTOPOLOGIES

PROJECT = Path(__file__).resolve().parents[2]

TOPOLOGY = Topology(
    project="flights",
    name="fleet",
    version="1.0",
    content_hash="02b558469878d0d409f38cbb8ca877e2d78586a0d09e9ae7974536d2c3c6ea3d",
    subtopologies=SUBTOPOLOGIES,
)

SETTINGS = Settings(
    log=PluginRef("embedded", {"path": str(PROJECT / ".headwater/log")}),
    state_dir=str(PROJECT / ".headwater/state"),
)

if __name__ == "__main__":
    sys.exit(main(TOPOLOGY, SETTINGS))
