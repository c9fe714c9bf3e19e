"""What differs between the last values of a result and those that Kafka has (`recomputed: changes`)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from ....errors import HeadwaterError
from ...ir.topology import Topic
from ...kafka.outgoing import Outgoing
from ...records.keys import key_partitions
from ...serdes.serde import Deserializer

Contents = Iterable[tuple[int, pa.RecordBatch]]
"""A partition of a topic in Kafka, and some of its records with the columns `key` and `value`; all records in order."""


class KeysUnknownError(HeadwaterError):
    """Kafka has a key that cannot be read as one of the topic."""

    def __init__(self, topic: Topic, target: str, key: bytes, error: str) -> None:
        super().__init__(
            f"what differs between {topic.name} and {target} in Kafka is unknown: the topic there has the key "
            f"{key[:100]!r}, which {topic.name} cannot have ({error})",
            "write `recomputed: append` under `kafka` of the topic, or another `topic` there",
        )


def differences(records: Outgoing, there: dict[bytes, tuple[bytes | None, int]], now: int) -> Outgoing:
    """The records whose values Kafka does not have, and tombstones for keys that are only there.

    `records`: a whole result, of which the last record of a key counts. `there`: see `last_values`. `now`: the time of
    tombstones, ms. Records without a key are all new.
    """
    keys, values = records.keys.to_pylist(), records.values.to_pylist()
    last = {key: row for row, key in enumerate(keys) if key is not None}
    rows = [row for row, key in enumerate(keys) if key is None]
    rows += [row for key, row in last.items() if there.get(key, (None, 0))[0] != values[row]]
    gone = [(key, partition) for key, (value, partition) in there.items() if value is not None and key not in last]
    changed = records.take(np.array(sorted(rows), np.int64))
    if not gone:
        return changed
    tombstones, times = pa.nulls(len(gone), pa.binary()), np.full(len(gone), now)
    return Outgoing(
        pa.concat_arrays([pa.array([key for key, _ in gone], pa.binary()), changed.keys]),
        pa.concat_arrays([tombstones, changed.values]),
        np.concatenate([np.array([partition for _, partition in gone], np.int64), changed.partitions]),
        np.concatenate([times, changed.timestamps]),
        None if changed.headers is None else pa.concat_arrays([pa.nulls(len(gone), pa.string()), changed.headers]),
    )


def last_values(
    topic: Topic, partition: int, contents: Contents, deserializer: Deserializer, target: str
) -> dict[bytes, tuple[bytes | None, int]]:
    """Key -> its last value in Kafka and the partition of that, for keys of one partition of a topic of the log.

    `target`: the topic's name in Kafka. Raises KeysUnknownError, SerdeError.
    """
    found: dict[bytes, tuple[bytes | None, int]] = {}
    for place, batch in contents:
        keyed = batch.filter(batch["key"].is_valid())
        decoded = deserializer.read(keyed["key"])
        for row, error in decoded.errors.items():
            raise KeysUnknownError(topic, target, keyed["key"][row].as_py(), error)
        columns = decoded.columns.rename_columns([f"key.{name}" for name in decoded.columns.schema.names])
        own = keyed.filter(pa.array(key_partitions(topic, columns) == partition))
        for key, value in zip(own["key"].to_pylist(), own["value"].to_pylist(), strict=True):
            found[key] = value, place
    return found
