"""Puts dead letters back into the topic from which their records came, changed or not, once each.

Which letters are back is in the commit that lists their records: so they are there once, whoever else retries, and
wherever a retry is killed.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from ...errors import HeadwaterError
from ...suggestions import closest
from ..ir.topology import DEAD_LETTER_COLUMNS, Topic
from ..log.commit.descriptions import ExternalTopic
from ..log.commit.external_records import AppendRecord, RecordId, Redriven
from ..log.commit.records import DEAD_LETTERS
from ..log.errors import SeedError
from ..log.log import Log
from ..log.state import LogState
from ..records.arrays import BadValueError
from ..records.record_json import Record
from ..records.values import parse_json
from .append import RetriedMeanwhileError, commit_append, write_incoming
from .record_form import parse_records

_NONE = "nothing in the project has `on_error: dead_letter`, which makes one"

_COUNT_AT_ONCE = 10_000
"""Letters whose records are written at once."""


class NoLettersError(HeadwaterError):
    """The topic holds no dead letters. `known`: those that do."""

    def __init__(self, topic: str, known: Sequence[str] = ()) -> None:
        of_it = [each for each in known if each.endswith(f"_{topic}{DEAD_LETTERS}")]
        close = of_it or [*closest(topic, known)]
        listed = "`headwater ls` lists them: `<topology>_<topic>_dead_letter`"
        super().__init__(
            f"{topic} is no topic of dead letters",
            f"did you mean {' or '.join(map(repr, close))}?" if close else listed if known else _NONE,
        )
        self.topic = topic


class LetterError(HeadwaterError):
    """A dead letter that cannot be put back: the `place` of the letter (`topic[partition]@offset`), and why."""

    def __init__(self, place: str, cause: str) -> None:
        super().__init__(
            f"{place}: {cause}",
            "nothing was put back; give the letters as `headwater read --format json` prints them with --file, with "
            "`key`, `value` and `timestamp` changed as you like",
        )
        self.place = place
        self.cause = cause


class LettersOutdatedError(HeadwaterError):
    """The records of `topic` were put into other partitions after these `letters` of `application` were written."""

    def __init__(self, letters: str, topic: str, application: str) -> None:
        topology = application.partition("-")[2]
        super().__init__(
            f"the records of {topic} were put into other partitions after the letters in {letters} were written",
            f"let `headwater run --select '{topology}+'` complete the new result of {topology}: it writes its letters "
            "again",
        )
        self.letters = letters
        self.topic = topic
        self.application = application


@dataclass(frozen=True)
class RetryResult:
    """The result of a retry. `topic`: where the records are again; None if there was none. `already`: letters that had
    been put back before. `commit`: its number, 0 if there was nothing to put back.
    """

    topic: str | None
    records: int
    already: int
    commit: int


@dataclass(frozen=True)
class _Letter:
    """`record`: the partition and offset of its record in the topic of origin."""

    partition: int
    offset: int
    value: Mapping[str, Any]
    record: RecordId


def check_letters(topic: Topic, others: Iterable[Topic] = ()) -> None:
    """Raise NoLettersError for a topic of anything else. `others`: the topics that somebody may have meant."""
    if not _holds_letters(topic):
        raise NoLettersError(topic.name, [each.name for each in others if _holds_letters(each)])


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

    `held`: the letters that the topic holds. `given`: only these, in record form, with the keys, values and times that
    their records are to have; each says by partition and offset which letter it is. `application`: `<project>-seed`.
    Raises LetterError, SeedError for records that the topic cannot hold, TopicChangedError, LettersOutdatedError.
    """
    assert letters.writer is not None
    writer = LogState.load(log.commits(letters.writer))
    called = {letters.name, *(f"{each.partition('-')[2]}_{origin.name}{DEAD_LETTERS}" for each in writer.former)}
    found = {(record.partition, record.offset): record for record in held}
    wanted = [_letter(record) for record in found.values()] if given is None else _given(letters, given, found)
    state = LogState.load(log.commits(application))
    while True:
        _check_not_moved(state, writer, letters, origin)
        new = _not_put_back(state, origin, writer.incarnation, called, wanted)
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
    """Letters say where their records were. Raises LettersOutdatedError if these lie elsewhere by now."""
    used, fed = writer.topology.topics.get(origin.name), state.topics.get(origin.name)
    if used is not None and fed is not None and fed.was_moved(used.since):
        raise LettersOutdatedError(letters.name, origin.name, writer.application)


def _not_put_back(
    state: LogState, origin: Topic, incarnation: str, called: Collection[str], wanted: Sequence[_Letter]
) -> list[_Letter]:
    """The letters whose records were not put back yet: not from these letters, and not from those of another time, when
    the result was not computed again yet, or of another topology. Each record is there once.

    `called`: the names that the topic of letters has had.
    """
    # Of earlier versions, which did not note the records. The name of the topic was that of its topology then.
    marks = [state.retried[each] for each in called if each in state.retried]
    done = state.put_back.get(origin.name, {})
    new: dict[RecordId, _Letter] = {}
    for each in wanted:
        partition, offset = each.record
        if any(start <= offset < end for start, end in done.get(partition, ())):
            continue
        if not any(mark.has(incarnation, each.partition, each.offset) for mark in marks):
            new.setdefault(each.record, each)
    return list(new.values())


def _written(
    log: Log, application: str, letters: Topic, origin: Topic, new: Sequence[_Letter], incarnation: str
) -> AppendRecord:
    """Write the records that the letters hold; the commit that would list them."""
    now = time.time_ns() // 1_000_000
    pieces = []
    for start in range(0, len(new), _COUNT_AT_ONCE):
        some = new[start : start + _COUNT_AT_ONCE]
        try:
            pieces.append(parse_records(origin, [_record(letters, each, origin.partitions) for each in some], now))
        except BadValueError as error:
            raise SeedError(_place(letters, some[error.row]), error.cause, column=error.column) from error
    places = ((each.partition, each.offset) for each in new)
    retried = Redriven.from_letters(letters.name, incarnation, places, (each.record for each in new))
    return AppendRecord(
        now, write_incoming(log, application, origin, pieces), topic=ExternalTopic.from_topic(origin), retried=retried
    )


def _record(letters: Topic, letter: _Letter, partitions: int) -> dict[str, Any]:
    """The record of a letter, in record form. Without a key it goes where it was, if there is such a partition still,
    else where its key belongs.
    """
    key, value, headers = (_parsed(letters, letter, role) for role in ("key", "value", "headers"))
    record = {"key": key, "value": value, "headers": headers or {}, "timestamp": _time(letters, letter)}
    partition = letter.value["partition"]
    return record if key or partition >= partitions else {**record, "partition": partition}


def _parsed(letters: Topic, letter: _Letter, role: str) -> Any:
    """What a column holds as JSON. An object may stand there itself, so that it can be edited more easily."""
    found = letter.value.get(role)
    if not isinstance(found, str):
        return found
    try:
        return parse_json(found)
    except (ValueError, RecursionError) as error:
        raise LetterError(_place(letters, letter), f"its {role} is not JSON: {error}") from error


def _time(letters: Topic, letter: _Letter) -> int:
    found = letter.value.get("timestamp")
    if isinstance(found, int):
        return found
    try:
        time_ = datetime.fromisoformat(str(found))
        return round((time_ - datetime.fromisoformat("1970-01-01T00:00:00Z")).total_seconds() * 1000)
    except (ValueError, TypeError) as error:
        raise LetterError(_place(letters, letter), f"its timestamp is no time: {found!r}") from error


def _letter(record: Record) -> _Letter:
    value = record.value or {}
    return _Letter(record.partition, record.offset, value, (value["partition"], value["offset"]))


def _given(
    letters: Topic, given: Sequence[Mapping[str, Any]], found: Mapping[tuple[int, int], Record]
) -> list[_Letter]:
    """The given letters. Raises LetterError for one that the topic does not hold, or that is there twice."""
    wanted: dict[tuple[int, int], _Letter] = {}
    for number, each in enumerate(given, 1):
        partition, offset, value = each.get("partition"), each.get("offset"), each.get("value")
        if not isinstance(partition, int) or not isinstance(offset, int) or (partition, offset) not in found:
            raise LetterError(f"record {number}", f"no letter of {letters.name}, by its partition and offset")
        if not isinstance(value, Mapping):
            raise LetterError(f"record {number}", "a letter has a value")
        if (partition, offset) in wanted:
            raise LetterError(f"record {number}", f"{letters.name}[{partition}]@{offset} is there twice")
        held = _letter(found[partition, offset])
        wanted[partition, offset] = replace(held, value={**held.value, **value})
    return list(wanted.values())


def _place(letters: Topic, letter: _Letter) -> str:
    return f"{letters.name}[{letter.partition}]@{letter.offset}"
