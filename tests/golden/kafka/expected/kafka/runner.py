"""Runs topology kafka of project shop 1.0.

`headwater run` runs it; so do `python runner.py` and `spark-submit runner.py` (`--help` lists
options).

Made by `headwater compile` from topics/orders.yml and profiles.yml: change those files, not
this one.
"""

import sys
from pathlib import Path

from headwater.runtime import KafkaCluster, PluginRef, Settings, main, topology_beside

PROJECT = Path(__file__).resolve().parents[2]

SETTINGS = Settings(
    log=PluginRef("embedded", {"path": str(PROJECT / ".headwater/log")}),
    state_dir=str(PROJECT / ".headwater/state"),
    kafka={
        "main": KafkaCluster(
            "kafka-1:9092,kafka-2:9092",
            {"security.protocol": "ssl", "socket.keepalive.enable": True},
            prefix="prod-",
        ),
        "partners": KafkaCluster("partners:9092"),
    },
)

if __name__ == "__main__":
    sys.exit(main(topology_beside(__file__), SETTINGS))
