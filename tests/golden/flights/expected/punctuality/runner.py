"""Runs topology punctuality of project flights 1.0.

`headwater run` runs it; so do `python runner.py` and `spark-submit runner.py` (`--help` lists options).

Made by `headwater compile` from topologies/punctuality.yml and profiles.yml: change those files, not this one.
"""

import sys
from pathlib import Path

from headwater.runtime import PluginRef, Settings, Topology, main
from job import SUBTOPOLOGIES

PROJECT = Path(__file__).resolve().parents[2]

TOPOLOGY = Topology(
    project="flights",
    name="punctuality",
    version="1.0",
    content_hash="e6b133d3f8c6ac7252e45ab4e2be15253fa949dbd87f8c22d777018c80d83333",
    subtopologies=SUBTOPOLOGIES,
)

SETTINGS = Settings(
    log=PluginRef("embedded", {"path": str(PROJECT / ".headwater/log")}),
    state_dir=str(PROJECT / ".headwater/state"),
)

if __name__ == "__main__":
    sys.exit(main(TOPOLOGY, SETTINGS))
