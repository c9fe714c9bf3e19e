"""Runs topology airport_traffic of project flights 1.0.

`headwater run` runs it; so do `python runner.py` and `spark-submit runner.py` (`--help` lists options).

Made by `headwater compile` from topologies/airport_traffic.yml and profiles.yml: change those files, not this
one.
"""

import sys
from pathlib import Path

from headwater.runtime import PluginRef, Settings, Topology, main
from job import SUBTOPOLOGIES

PROJECT = Path(__file__).resolve().parents[2]

TOPOLOGY = Topology(
    project="flights",
    name="airport_traffic",
    version="1.0",
    content_hash="127e17ed9aae96a2c2b625eb196b813b5d4caaace9d2c7253106ba82013d53fe",
    subtopologies=SUBTOPOLOGIES,
)

SETTINGS = Settings(
    log=PluginRef("embedded", {"path": str(PROJECT / ".headwater/log")}),
    state_dir=str(PROJECT / ".headwater/state"),
)

if __name__ == "__main__":
    sys.exit(main(TOPOLOGY, SETTINGS))
