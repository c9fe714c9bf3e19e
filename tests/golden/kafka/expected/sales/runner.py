"""Runs topology sales of project shop 1.0.

`headwater run` runs it; so do `python runner.py` and `spark-submit runner.py` (`--help` lists
options).

Made by `headwater compile` from topologies/sales.yml and profiles.yml: change those files,
not this one.
"""

import sys
from pathlib import Path

from headwater.runtime import PluginRef, Settings, main, topology_beside

PROJECT = Path(__file__).resolve().parents[2]

SETTINGS = Settings(
    log=PluginRef("embedded", {"path": str(PROJECT / ".headwater/log")}),
    state_dir=str(PROJECT / ".headwater/state"),
)

if __name__ == "__main__":
    sys.exit(main(topology_beside(__file__), SETTINGS))
