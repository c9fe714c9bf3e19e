"""Runs topology carrier_delays of project flights 1.0.

`headwater run` runs it; so do `python runner.py` and `spark-submit runner.py` (`--help` lists options).

Made by `headwater compile` from topologies/carrier_delays.yml and profiles.yml: change those files, not this one.
"""

import sys
from pathlib import Path

from headwater.runtime import PluginRef, Settings, Topology, main
from job import SUBTOPOLOGIES

PROJECT = Path(__file__).resolve().parents[2]

TOPOLOGY = Topology(
    project="flights",
    name="carrier_delays",
    version="1.0",
    content_hash="c8784df3cd7c2198e8d6199e6a84441ed55ca5637c47ef97aac6714f89baef2c",
    subtopologies=SUBTOPOLOGIES,
)

SETTINGS = Settings(
    log=PluginRef("embedded", {"path": str(PROJECT / ".headwater/log")}),
    state_dir=str(PROJECT / ".headwater/state"),
)

if __name__ == "__main__":
    sys.exit(main(TOPOLOGY, SETTINGS))
