"""Topology devices of project fleet 1.0.

Made by `headwater compile` from topologies/devices.yml: change that file, not this one.
"""

from headwater.runtime import (
    AggregateWith,
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
DEVICE_PROFILES = Topic(
    "device_profiles",
    partitions=2,
    key="device string",
    value="statuses array<string>, lowest double",
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
PROFILE = Store(
    "profile",
    partitions=2,
    key="device string",
    value="statuses array<string>, lowest double",
)


@subtopology(0, "latest", file=FILE)
def latest(rows: Pipe) -> Pipe:
    """2 tasks: device_events -> device_state, device_hours, device_profiles.

    Stores: latest, worst, profile.
    """
    return rows.process(
        Source(DEVICE_EVENTS, ("latest", "worst", "profile"), at=3),
        Reduce("latest", LATEST, PythonFunction("functions.devices:latest", FUNCTIONS), at=6),
        Sink("latest", DEVICE_STATE, mode="each_update", at=9),
        Reduce("worst", WORST, PythonFunction("functions.devices:worst", FUNCTIONS), at=16),
        FinalResults("worst", WORST, at=16),
        Sink("worst", DEVICE_HOURS, at=19),
        AggregateWith(
            "profile",
            PROFILE,
            PythonFunction("functions.devices:Profile", FUNCTIONS),
            emit="per_epoch",
            at=23,
        ),
        Sink("profile", DEVICE_PROFILES, mode="per_epoch", at=28),
    )


TOPOLOGY = Topology(
    project="fleet",
    name="devices",
    version="1.0",
    content_hash="87f2a142538f5433df65dcd6a7f0408d3bc28c545be78609469fd40a35c44d0e",
    subtopologies=(latest,),
)
