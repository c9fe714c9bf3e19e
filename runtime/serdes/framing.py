"""Payloads with the number of their schema, and the subjects of schemas: what formats with a registry share.

A payload is the byte 0, the number of its schema in 4 bytes (big endian), and the value in the schema's format.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..records.arrays import Int64s, to_numpy
from ..records.keys import binary_array, binary_parts, ranges
from .registry import RegisteredSchema, Registry, Schema, SchemaType, registry_of
from .serde import PayloadSpec, Problem, SerdeError

HEAD = 5
"""The bytes before the value."""


@dataclass(frozen=True)
class Framed:
    """Payloads, taken apart. `numbers`: of their schemas, -1 for null payloads and errors. `errors`: by row.

    `data`: all bytes. `starts`, `lengths`: of what follows a number.
    """

    numbers: Int64s
    data: npt.NDArray[np.uint8]
    starts: Int64s
    lengths: Int64s
    errors: Mapping[int, str]

    def groups(self) -> Iterator[tuple[int, Int64s]]:
        """(Number of a schema, rows with it), by number."""
        for number in np.unique(self.numbers):
            if number >= 0:
                yield int(number), np.flatnonzero(self.numbers == number)

    def bodies(self, rows: Int64s) -> pa.BinaryArray:
        """What follows the numbers of some rows."""
        return slices(self.data, self.starts[rows], self.lengths[rows])


def slices(data: npt.NDArray[np.uint8], starts: Int64s, lengths: Int64s) -> pa.BinaryArray:
    """Parts of bytes, copied. (Arrow's `binary_slice` needs one start for all.)

    Parts that stand one after the other are every second value of an array over the same bytes, from which Arrow takes
    them, ten times as fast as NumPy:

        data                 b"..UA.AA"
        starts, lengths      [2, 5], [2, 2]
        offsets              [2, 4, 5, 7]
        values               [b"UA", b".", b"AA"]
    """
    ends = starts + lengths
    if not len(starts) or (starts[1:] < ends[:-1]).any():
        return binary_array(data[ranges(starts, lengths)], lengths)
    offsets = np.stack([starts, ends], axis=1).astype(np.int32).reshape(-1)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    values = pa.BinaryArray.from_buffers(pa.binary(), len(offsets) - 1, buffers)
    return values.take(pa.array(np.arange(0, len(offsets), 2)))


def unframed(payloads: pa.BinaryArray) -> Framed:
    """The parts of payloads. What is no payload with a schema is an error of its row."""
    data, starts, lengths = binary_parts(payloads)
    if len(starts):  # a slice has the bytes of the whole array
        data, starts = data[starts[0] : starts[-1] + lengths[-1]], starts - starts[0]
    valid = to_numpy(payloads.is_valid())
    whole = valid & (lengths >= HEAD)
    heads = np.zeros((len(payloads), HEAD), np.uint8)
    heads[whole] = data[starts[whole][:, None] + np.arange(HEAD)]
    errors = {
        int(row): f"{lengths[row]} bytes are too few: a payload begins with the number of its schema, in {HEAD} bytes"
        for row in np.flatnonzero(valid & ~whole)
    }
    other = whole & (heads[:, 0] != 0)
    errors |= {
        int(row): f"the first byte is 0x{heads[row, 0]:02x}, not 0x00: it was written without a schema registry"
        for row in np.flatnonzero(other)
    }
    numbers = np.ascontiguousarray(heads[:, 1:]).view(">i4")[:, 0].astype(np.int64)
    numbers[~whole | other] = -1
    below = whole & ~other & (numbers < 0)
    errors |= {int(row): f"{numbers[row]} is no number of a schema" for row in np.flatnonzero(below)}
    numbers[below] = -1
    return Framed(numbers, data, starts + HEAD, np.maximum(lengths - HEAD, 0), errors)


def framed(bodies: pa.BinaryArray, number: int) -> pa.BinaryArray:
    """The payloads of values in the format of a schema. Null stays null."""
    head = pa.scalar(b"\x00" + number.to_bytes(4, "big"), pa.binary())
    return pc.binary_join_element_wise(head, bodies, pa.scalar(b"", pa.binary()))


# Subjects.


class SubjectNameStrategy(StrEnum):
    """How the subject of a schema is called, with the names that Confluent's serializers give.

    - TOPIC: `<topic>-key` and `<topic>-value`.
    - RECORD: the full name of the record.
    - TOPIC_RECORD: `<topic>-<full name of the record>`.
    """

    TOPIC = "topic"
    RECORD = "record"
    TOPIC_RECORD = "topic_record"


@dataclass(frozen=True)
class SchemaOptions:
    """Where the schema of keys or values is in the registry.

    `subject`: its name, if it does not follow from the strategy. `register`: whether a run registers the schema of the
    columns; otherwise it has to be there.
    """

    subject: str | None = None
    subject_name_strategy: SubjectNameStrategy = SubjectNameStrategy.TOPIC
    register: bool = False

    @classmethod
    def of(
        cls, subject: str | None = None, subject_name_strategy: str = "topic", register: bool = False
    ) -> SchemaOptions:
        """The options as they are written."""
        return cls(subject, SubjectNameStrategy(subject_name_strategy), register)

    def subject_of(self, spec: PayloadSpec, record: str) -> str:
        """The subject of the schema of keys or values. `record`: the full name of the record."""
        if self.subject is not None:
            return self.subject
        match self.subject_name_strategy:
            case SubjectNameStrategy.TOPIC:
                return f"{spec.topic}-{spec.role}"
            case SubjectNameStrategy.RECORD:
                return record
            case SubjectNameStrategy.TOPIC_RECORD:
                return f"{spec.topic}-{record}"

    def check(self, format_name: str, spec: PayloadSpec) -> Sequence[Problem]:
        """Why the options do not go together, or not with the cluster."""
        if spec.registry is None:
            return [
                Problem(
                    f"the format {format_name} needs a schema registry; add `registry` to the cluster in profiles.yml"
                )
            ]
        if self.subject is not None and self.subject_name_strategy is not SubjectNameStrategy.TOPIC:
            return [Problem("`subject` names the subject, so it has no strategy; keep one of them")]
        return []


class SchemaMissingError(SerdeError):
    """The registry has no schema for what is written."""


class IncompatibleSchemaError(SerdeError):
    """The registry does not take a schema as the next version of its subject."""


def registry_for(spec: PayloadSpec) -> Registry:
    """The registry of keys or values. Raises SerdeError."""
    if spec.registry is None:
        raise SerdeError(f"the cluster of topic {spec.topic} has no schema registry", "add `registry` in profiles.yml")
    return registry_of(spec.registry)


def schema_of_payloads(registry: Registry, number: int, language: SchemaType) -> Schema | str:
    """The schema with a number, as payloads have it, or what is wrong with all payloads that have it."""
    schema = registry.schema(number)
    if schema is None:
        return f"the schema registry has no schema {number}"
    if schema.type is not language:
        return f"schema {number} is {schema.type}, not {language}"
    return schema


def latest_schema(
    registry: Registry, subject: str, options: SchemaOptions, language: SchemaType
) -> RegisteredSchema | None:
    """The schema that a subject has for what is written; None if it has none, and a run registers one.

    Raises SchemaMissingError, SerdeError for a schema in another language.
    """
    latest = registry.latest(subject)
    if latest is None and not options.register:
        raise SchemaMissingError(
            f"subject {subject} of {registry.url} has no schema",
            "register one, write `register: true` beside the format, or correct `subject`",
        )
    if latest is not None and latest.schema.type is not language:
        raise SerdeError(
            f"schema {latest.id} of subject {subject} is {latest.schema.type}, not {language}",
            "correct `subject` or the format",
        )
    return latest


def registered(registry: Registry, subject: str, schema: Schema) -> int:
    """The number of a schema in its subject. A new one is registered, if the registry says that it is compatible.

    Raises IncompatibleSchemaError, RegistryError.
    """
    number = registry.number_of(subject, schema)
    if number is not None:
        return number
    reasons = registry.incompatibilities(subject, schema)
    if reasons:
        raise IncompatibleSchemaError(
            f"the schema of the columns is not compatible with subject {subject} of {registry.url}: "
            + "; ".join(reasons),
            "declare columns that are compatible, write another `subject`, or change the subject's compatibility",
        )
    return registry.register(subject, schema)
