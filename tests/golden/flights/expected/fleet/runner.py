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
    content_hash="7b662c89aeda480ab5b1912c4ddff40b594313a007885cc6ed2efeedde40f6da",
    subtopologies=SUBTOPOLOGIES,
)

SETTINGS = Settings(
    log=PluginRef("embedded", {"path": str(PROJECT / ".headwater/log")}),
    state_dir=str(PROJECT / ".headwater/state"),
)

if __name__ == "__main__":
    sys.exit(main(TOPOLOGY, SETTINGS))
