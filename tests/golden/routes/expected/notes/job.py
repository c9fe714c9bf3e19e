"""Topology notes of project shop 1.0.

Made by `headwater compile` from topologies/notes.yml: change that file, not this one.
"""

from headwater.runtime import KeyBy, Pipe, RoutedSink, Source, Topic, Topology, subtopology

FILE = "topologies/notes.yml"

NOTES = Topic("notes", partitions=1, key="channel string", value="topic string, text string")
NEWS = Topic(
    "news",
    partitions=1,
    key="channel string",
    value="topic string, text string",
    writer="shop-notes",
)
ALERTS = Topic(
    "alerts",
    partitions=1,
    key="channel string",
    value="topic string, text string",
    writer="shop-notes",
)
SPORT = Topic(
    "sport",
    partitions=1,
    key="text string",
    value="topic string, text string",
    writer="shop-notes",
)
WEATHER = Topic(
    "weather",
    partitions=1,
    key="text string",
    value="topic string, text string",
    writer="shop-notes",
)


@subtopology(0, "by_channel", file=FILE)
def by_channel(rows: Pipe) -> Pipe:
    """1 task: notes -> news, alerts, sport, weather."""
    rows = rows.process(
        Source(NOTES, ("by_channel", "by_topic"), at=3),
        RoutedSink("by_channel", "channel", (NEWS, ALERTS), at=6),
        KeyBy("by_topic", {"text": "text"}, at=11),
    )
    rows = rows.select(
        "by_topic",
        {"_topic string": "lower(topic)"},
        keep=("topic", "text"),
        null_values=True,
        at=14,
    )
    return rows.process(RoutedSink("by_topic", "_topic", (SPORT, WEATHER), at=14))


TOPOLOGY = Topology(
    project="shop",
    name="notes",
    version="1.0",
    content_hash="9d4caa3443ab0e80475d29601a487b0e6ac1107c830e3f44350eaa1c7556245c",
    subtopologies=(by_channel,),
)
