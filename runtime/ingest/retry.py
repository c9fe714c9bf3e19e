"""Redrive: puts dead letters back into the topic from which their records came, corrected or not, once each.

The commit that lists the records also lists the letters. So each record is put back once, whatever other processes put
back, and wherever one is killed.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from ...errors import HeadwaterError
from ...suggestions import closest
from ..ir.topology import DEAD_LETTER_COLUMNS, Topic
from ..log.commit.descriptions import ExternalTopic
from ..log.commit.external_records import AppendRecord, RecordId, Redriven
from ..log.commit.records import DEAD_LETTERS, GenerationRecord
from ..log.errors import SeedError
from ..log.log import Listed, Log
from ..log.state import LogState
from ..records.arrays import BadValueError, to_numpy
from ..records.record_json import Record, key_to_json, to_json
from ..records.values import parse_json
from ..serdes.serde import Decoded, Role
from ..task_id import TaskKey
from ..timed_parts import wall_ms
from .append import RetriedMeanwhileError, commit_append, write_incoming, write_lane
from .record_form import parse_records

_NONE = "nothing in the project has `on_error: dead_letter`, which creates one"

_COUNT_AT_ONCE = 10_000
"""The most letters whose records are written at once."""


class NoLettersError(HeadwaterError):
    """The topic is no dead-letter topic. `known`: names of dead-letter topics."""

    def __init__(self, topic: str, known: Sequence[str] = ()) -> None:
        same_origin = [name for name in known if name.endswith(f"_{topic}{DEAD_LETTERS}")]
        close = same_origin or [*closest(topic, known)]
        listed = "`headwater ls` lists them: `<topology>_<topic>_dead_letter`"
        super().__init__(
            f"{topic} is no dead-letter topic",
            f"did you mean {' or '.join(map(repr, close))}?" if close else listed if known else _NONE,
        )


class LetterError(HeadwaterError):
    """A dead letter that cannot be put back: its `place` (`topic[partition]@offset`), and the `cause`."""

    def __init__(self, place: str, cause: str) -> None:
        super().__init__(
            f"{place}: {cause}",
            "nothing was put back; --file takes letters as `headwater read --format json` prints them, with corrected "
            "`key`, `value` and `timestamp`",
        )


class CopyChangedError(HeadwaterError):
    """The columns of `topic` are declared otherwise than those that its copy from Kafka has written."""

    def __init__(self, topic: str, application: str) -> None:
        topology = application.partition("-")[2]
        super().__init__(
            f"{topic} is declared otherwise than {application} has written it",
            f"let `headwater run --select {topology}` apply the change first; `headwater plan` shows it",
        )


class LettersOutdatedError(HeadwaterError):
    """The records of `topic` were repartitioned after these `letters` of `application` were written."""

    def __init__(self, letters: str, topic: str, application: str) -> None:
        topology = application.partition("-")[2]
        super().__init__(
            f"the records of {topic} were repartitioned after the letters in {letters} were written",
            f"let `headwater run --select '{topology}+'` complete the rebuild of {topology}: it writes letters anew",
        )


@dataclass(frozen=True)
class RetryResult:
    """The result of a redrive. `topic`: where the records are again, None without letters. `already`: the number of
    letters put back before. `commit`: its number, 0 if there was nothing to put back.
    """

    topic: str | None
    records: int
    already: int
    commit: int


@dataclass(frozen=True)
class _Letter:
    """`record`: partition and offset of its record in the topic of origin."""

    partition: int
    offset: int
    value: Mapping[str, Any]
    record: RecordId


def check_letters(topic: Topic, others: Iterable[Topic] = ()) -> None:
    """Raise NoLettersError unless this is a dead-letter topic. `others`: topics to suggest."""
    if not _holds_letters(topic):
        raise NoLettersError(topic.name, [other.name for other in others if _holds_letters(other)])


def _holds_letters(topic: Topic) -> bool:
    wanted = ", ".join(f"{column} {data_type}" for column, data_type in DEAD_LETTER_COLUMNS.items())
    return topic.writer is not None and not topic.key and topic.value == wanted


def retry(
    log: Log,
    application: str,
    letters: Topic,
    held: Iterable[Record],
    origin: Topic,
    given: Sequence[Mapping[str, Any]] | None = None,
) -> RetryResult:
    """Append the records of dead letters to `origin`. Either all are committed, or none.

    `held`: the letters in the topic. `given`: only these, in record form, with corrected keys, values and times;
    partition and offset identify the letter. `application`: `<project>-seed`. Raises LetterError, SeedError for records
    that the topic cannot hold, TopicChangedError, LettersOutdatedError.
    """
    assert letters.writer is not None
    writer = LogState.load(log.commits(letters.writer))
    names = {letters.name, *(f"{place_.partition('-')[2]}_{origin.name}{DEAD_LETTERS}" for place_ in writer.former)}
    by_position = {(record.partition, record.offset): record for record in held}
    wanted = (
        [_letter(record) for record in by_position.values()] if given is None else _given(letters, given, by_position)
    )
    state = LogState.load(log.commits(application))
    while True:
        _check_not_moved(state, writer, letters, origin)
        new = _not_put_back(state, origin, writer.incarnation, names, wanted)
        if not new:
            return RetryResult(origin.name, 0, len(wanted), 0)
        record = _written(log, application, letters, origin, new, writer.incarnation)
        try:
            done_now = commit_append(state, origin, record)
            return RetryResult(origin.name, len(new), len(wanted) - len(new), done_now.commit)
        except RetriedMeanwhileError:
            for path in {segment.path for segment in record.segments}:
                log.remove(path)


def _check_not_moved(state: LogState, writer: LogState, letters: Topic, origin: Topic) -> None:
    """Letters contain the positions of their records. Raises LettersOutdatedError if these have changed."""
    used, fed = writer.topology.topics.get(origin.name), state.topics.get(origin.name)
    if used is not None and fed is not None and fed.was_moved(used.since):
        raise LettersOutdatedError(letters.name, origin.name, writer.application)


def _not_put_back(
    state: LogState, origin: Topic, incarnation: str, names: Collection[str], wanted: Sequence[_Letter]
) -> list[_Letter]:
    """The letters whose records were not put back yet, from these letters or from others: those before a rebuild, or
    those of another topology. A record is put back once.

    `names`: all names that the dead-letter topic has had.
    """
    # Written by earlier versions, which did not note the records, under the topology's name at that time.
    marks = [state.retried[name] for name in names if name in state.retried]
    done = state.put_back.get(origin.name, {})
    new: dict[RecordId, _Letter] = {}
    for letter in wanted:
        partition, offset = letter.record
        if any(start <= offset < end for start, end in done.get(partition, ())):
            continue
        if not any(mark.has(incarnation, letter.partition, letter.offset) for mark in marks):
            new.setdefault(letter.record, letter)
    return list(new.values())


def _written(
    log: Log, application: str, letters: Topic, origin: Topic, new: Sequence[_Letter], incarnation: str
) -> AppendRecord:
    """Write the records of the letters. Returns the commit that would list them."""
    now = wall_ms()
    pieces = []
    for start in range(0, len(new), _COUNT_AT_ONCE):
        some = new[start : start + _COUNT_AT_ONCE]
        try:
            pieces.append(parse_records(origin, [_record(letters, letter, origin.partitions) for letter in some], now))
        except BadValueError as error:
            raise SeedError(_place(letters, some[error.row]), error.cause, column=error.column) from error
    places = ((letter.partition, letter.offset) for letter in new)
    retried = Redriven.from_letters(letters.name, incarnation, places, (letter.record for letter in new))
    return AppendRecord(
        now, write_incoming(log, application, origin, pieces), topic=ExternalTopic.from_topic(origin), retried=retried
    )


def _record(letters: Topic, letter: _Letter, partitions: int) -> dict[str, Any]:
    """The record of a letter, in record form. Without a key it goes to its former partition if that still exists, else
    to the partition of its key.
    """
    key, value, headers = (_parsed(letters, letter, role) for role in ("key", "value", "headers"))
    record = {"key": key, "value": value, "headers": headers or {}, "timestamp": _time(letters, letter)}
    partition = letter.value["partition"]
    return record if key or partition >= partitions else {**record, "partition": partition}


def _parsed(letters: Topic, letter: _Letter, role: str) -> Any:
    """The value of a JSON column. It may already be an object, which is easier to edit."""
    text = letter.value.get(role)
    if not isinstance(text, str):
        return text
    try:
        return parse_json(text)
    except (ValueError, RecursionError) as error:
        raise LetterError(_place(letters, letter), f"its {role} is not JSON: {error}") from error


def _time(letters: Topic, letter: _Letter) -> int:
    time_value = letter.value.get("timestamp")
    if isinstance(time_value, int):
        return time_value
    try:
        time_ = datetime.fromisoformat(str(time_value))
        return round((time_ - datetime.fromisoformat("1970-01-01T00:00:00Z")).total_seconds() * 1000)
    except (ValueError, TypeError) as error:
        raise LetterError(_place(letters, letter), f"its timestamp is no time: {time_value!r}") from error


def _letter(record: Record) -> _Letter:
    value = record.value or {}
    return _Letter(record.partition, record.offset, value, (value["partition"], value["offset"]))


def _given(
    letters: Topic, given: Sequence[Mapping[str, Any]], by_position: Mapping[tuple[int, int], Record]
) -> list[_Letter]:
    """The given letters. Raises LetterError for a letter that the topic does not have, or that is given twice."""
    wanted: dict[tuple[int, int], _Letter] = {}
    for number, record in enumerate(given, 1):
        partition, offset, value = record.get("partition"), record.get("offset"), record.get("value")
        if not isinstance(partition, int) or not isinstance(offset, int) or (partition, offset) not in by_position:
            raise LetterError(f"record {number}", f"{letters.name} has no letter of this partition and offset")
        if not isinstance(value, Mapping):
            raise LetterError(f"record {number}", "a letter has a value")
        if (partition, offset) in wanted:
            raise LetterError(f"record {number}", f"{letters.name}[{partition}]@{offset} is given twice")
        letter = _letter(by_position[partition, offset])
        wanted[partition, offset] = replace(letter, value={**letter.value, **value})
    return list(wanted.values())


def _place(letters: Topic, letter: _Letter) -> str:
    return f"{letters.name}[{letter.partition}]@{letter.offset}"


# Letters of a copy from Kafka. They hold the payloads of their records, and its application writes the topic.


@dataclass(frozen=True)
class Copy:
    """A copy of a topic in Kafka. `topic`: that it writes. `decode`: columns of keys or values, as declared now."""

    topic: Topic
    decode: Callable[[Role, pa.BinaryArray], Decoded]


def retry_copied(
    log: Log,
    letters: Topic,
    held: Iterable[Record],
    copy: Copy,
    given: Sequence[Mapping[str, Any]] | None = None,
) -> RetryResult:
    """Append the records of a copy's dead letters to its topic, decoded as declared now. All are committed, or none.

    The copy itself commits them, so it must not run: any driver that still exists is fenced. They are behind the
    records of their partitions in Kafka, and have the stream time of these: with older timestamps they may be late.

    Raises CopyChangedError, LetterError, SeedError, CommitExistsError.
    """
    assert letters.writer is not None
    state = LogState.load(log.commits(letters.writer))
    by_position = {(record.partition, record.offset): record for record in held}
    wanted = (
        [_letter(record) for record in by_position.values()] if given is None else _given(letters, given, by_position)
    )
    new = _not_put_back(state, copy.topic, state.incarnation, [letters.name], wanted)
    if not new:
        return RetryResult(copy.topic.name, 0, len(wanted), 0)
    used = state.topology.topics.get(copy.topic.name)
    if used is None or (used.key, used.value) != (copy.topic.key, copy.topic.value):
        raise CopyChangedError(copy.topic.name, letters.writer)
    rows = _decoded(letters, new, copy)
    state.commit(GenerationRecord(state.generation + 1, wall_ms(), state.topology, state.assignment))
    now, segments = wall_ms(), list[Listed]()
    try:
        for lane in sorted({letter.value["partition"] for letter in new}):
            of_lane = [number for number, letter in enumerate(new) if letter.value["partition"] == lane]
            try:
                incoming = parse_records(copy.topic, [rows[number] for number in of_lane], now)
            except BadValueError as error:
                place = _place(letters, new[of_lane[error.row]])
                raise SeedError(place, error.cause, column=error.column) from error
            stream_time = state.tasks.last_commit(TaskKey(letters.writer, copy.topic.name, lane)).stream_time
            segments += write_lane(log, letters.writer, copy.topic, incoming, lane, stream_time)
        places = ((letter.partition, letter.offset) for letter in new)
        retried = Redriven.from_letters(letters.name, state.incarnation, places, ())
        state.commit(AppendRecord(now, tuple(segments), retried=retried))
    except HeadwaterError:
        for path in {segment.path for segment in segments}:
            log.remove(path)
        raise
    return RetryResult(copy.topic.name, len(new), len(wanted) - len(new), state.number)


def _decoded(letters: Topic, new: Sequence[_Letter], copy: Copy) -> list[dict[str, Any]]:
    """The records of letters, in record form. Raises LetterError for one that cannot be decoded."""
    columns: dict[Role, list[dict[str, Any] | None]] = {}
    for role in Role:
        payloads = pa.array([_payload(letters, letter, role) for letter in new], pa.binary())
        found = copy.decode(role, payloads)
        for row, cause in sorted(found.errors.items()):
            raise LetterError(_place(letters, new[row]), f"its {role} cannot be decoded: {cause}")
        names = found.columns.schema.names
        values = [
            key_to_json(name, column) if role is Role.KEY else to_json(column)
            for name, column in zip(names, found.columns.columns, strict=True)
        ]
        absent = to_numpy(payloads.is_null()) if found.deleted is None else to_numpy(payloads.is_null()) | found.deleted
        columns[role] = [
            None if absent[row] else {name: column[row] for name, column in zip(names, values, strict=True)}
            for row in range(len(new))
        ]
    return [
        {
            "key": key,
            "value": value,
            "headers": _parsed(letters, letter, "headers") or {},
            "timestamp": _time(letters, letter),
            **({} if key else {"partition": letter.value["partition"] % copy.topic.partitions}),
        }
        for letter, key, value in zip(new, columns[Role.KEY], columns[Role.VALUE], strict=True)
    ]


def _payload(letters: Topic, letter: _Letter, role: Role) -> bytes | None:
    """The key or the value as it is in Kafka."""
    held = _parsed(letters, letter, role.value)
    if held is None:
        return None
    try:
        text = held[role.value]
        return None if text is None else b64decode(text, validate=True)
    except (KeyError, TypeError, ValueError) as error:
        raise LetterError(_place(letters, letter), f"its {role} has no bytes in base64") from error
