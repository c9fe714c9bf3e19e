"""Topology devices of project fleet 1.0.

Made by `headwater compile` from topologies/devices.yml: change that file, not this one.
"""

from headwater.runtime import (
    FinalResults,
    Pipe,
    PythonCode,
    PythonFunction,
    Reduce,
    Sink,
    Source,
    Store,
    Topic,
    Topology,
    Window,
    subtopology,
)

FILE = "topologies/devices.yml"
FUNCTIONS = PythonCode.beside(__file__)

DEVICE_EVENTS = Topic(
    "device_events",
    partitions=2,
    key="device string",
    value="status string, battery double, seen timestamp",
    timestamp="seen",
)
DEVICE_STATE = Topic(
    "device_state",
    partitions=2,
    key="device string",
    value="status string, battery double, seen timestamp",
    writer="fleet-devices",
)
DEVICE_HOURS = Topic(
    "device_hours",
    partitions=2,
    key="device string",
    value="status string, battery double, seen timestamp",
    windowed=True,
    writer="fleet-devices",
)

LATEST = Store(
    "latest",
    partitions=2,
    key="device string",
    value="status string, battery double, seen timestamp",
)
WORST = Store(
    "worst",
    partitions=2,
    key="device string",
    value="status string, battery double, seen timestamp",
    type="window",
    window=Window.tumbling("1h", grace="10m"),
)


@subtopology(0, "latest", file=FILE)
def latest(rows: Pipe) -> Pipe:
    """2 tasks: device_events -> device_state, device_hours.

    Stores: latest, worst.
    """
    return rows.process(
        Source(DEVICE_EVENTS, ("latest", "worst"), at=3),
        Reduce("latest", LATEST, PythonFunction("functions.devices:latest", FUNCTIONS), at=6),
        Sink("latest", DEVICE_STATE, mode="each_update", at=9),
        Reduce("worst", WORST, PythonFunction("functions.devices:worst", FUNCTIONS), at=16),
        FinalResults("worst", WORST, at=16),
        Sink("worst", DEVICE_HOURS, at=19),
    )


TOPOLOGY = Topology(
    project="fleet",
    name="devices",
    version="1.0",
    content_hash="78603c2b165858d228e8aacdfe5e5cea885be6a1f7c976f93e5ac122e2d8a31c",
    subtopologies=(latest,),
)
