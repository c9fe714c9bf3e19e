"""Records under another key, which is made of the columns that they have."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from ....errors import HeadwaterError
from ...records.kinds import Kind
from ...records.schema import key_columns, value_columns
from ...records.widening import as_column
from ...topology import Topic


class DeletionsWithoutKeyError(HeadwaterError):
    """Records that delete have no value, and so no columns for the new key of their `topic`. The ways out are those of
    any changed key.
    """

    def __init__(self, topic: str, columns: str) -> None:
        super().__init__(
            f"the records of {topic} cannot be put where the key {columns} belongs: some of them delete a key of "
            "before, and do not say which key of now that is"
        )
        self.topic = topic


def rekeyed(topic: Topic, records: pa.RecordBatch) -> pa.RecordBatch:
    """Records with the key that `topic` has now: each column from the key of before, or else from the value.

    Columns of the key of before stay, in the value. So do columns of the value that became the key. Raises
    DeletionsWithoutKeyError.
    """
    have = dict(zip(records.schema.names, records.columns, strict=True))
    keys = key_columns(topic)
    from_value = [name for name in keys if f"key.{name}" not in have]
    if from_value and pc.any(pc.equal(have["_kind"], int(Kind.TOMBSTONE))).as_py():
        raise DeletionsWithoutKeyError(topic.name, topic.key)
    found = {
        f"key.{name}": as_column(have.get(f"key.{name}", have.get(f"value.{name}")), records.num_rows, wanted)
        for name, wanted in keys.items()
    }
    values = value_columns(topic)
    for name, column in have.items():
        role, _, rest = name.partition(".")
        if role == "key" and f"value.{rest}" not in have:
            wanted = values.get(rest, column.type)
            found[f"value.{rest}"] = as_column(column, records.num_rows, wanted)
        elif role != "key":
            found[name] = column
    return pa.RecordBatch.from_arrays(list(found.values()), names=list(found))
