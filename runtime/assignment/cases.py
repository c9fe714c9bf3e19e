"""Cases for `headwater assign`: states of applications as JSON, and the resulting assignments."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

from ...errors import HeadwaterError
from ...plugins.errors import error_text
from ..task_id import TaskId
from .assignor import AssignmentError, ClientAssignment, TaskAssignmentError, TaskAssignor, TaskType, run_assignor
from .cluster import (
    LATEST_OFFSET,
    UNKNOWN_LAG,
    ApplicationState,
    AssignmentConfigs,
    ClientState,
    ProcessId,
    TaskInfo,
    TaskTopicPartition,
    UnknownLagError,
)
from .strict_json import (
    CaseError,
    Fields,
    distinct,
    flag,
    integer,
    items,
    number,
    optional,
    parse,
    shown,
    task_id,
    text,
)

# Reads cases and runs assignors on them. `docs/assignment.md` describes the keys and their defaults.

DEFAULT_ASSIGNOR = "high_availability"
STRATEGIES = ("none", "min_traffic", "balance_subtopology")

_NOTHING: Mapping[str, Any] = {}
_CASE = ("id", "assignor", "configs", "clients", "tasks", "leader", "now_ms")
_CLIENT = ("process_id", "threads", "rack", "tags", "previous_active", "previous_standby", "lags")
_TASK = ("id", "stateful", "changelogged", "partitions", "state_bytes", "records_per_second")
_PARTITION = ("topic", "partition", "source", "changelog", "racks")


@dataclass(frozen=True)
class Case:
    """The state of an application, and an assignor. `id`: any name of the case, which its result repeats."""

    id: str | int | None
    assignor: str
    options: Mapping[str, Any] = field(default_factory=dict)
    state: ApplicationState = field(default_factory=lambda: ApplicationState({}, {}))


@dataclass(frozen=True)
class CaseResult:
    """The result of a case. `line`: the line number of an unreadable case."""

    id: str | int | None
    clients: tuple[ClientAssignment, ...] = ()
    error: str | None = None
    validation: AssignmentError = AssignmentError.NONE
    line: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The result as a mapping, with sorted clients and tasks."""
        clients = sorted(self.clients, key=lambda client: client.process_id)
        deadlines = {client.process_id: client.followup_rebalance_deadline for client in clients}
        return {
            "id": self.id,
            **({} if self.line is None else {"line": self.line}),
            "assignments": {
                client.process_id: {
                    "active": [str(task) for task in client.of_type(TaskType.ACTIVE)],
                    "standby": [str(task) for task in client.of_type(TaskType.STANDBY)],
                }
                for client in clients
            },
            "followup_deadlines": {client: at for client, at in deadlines.items() if at is not None},
            "error": self.error,
            "validation": self.validation.name,
        }


def case_id(value: Any) -> str | int | None:
    """The id in a JSON value, which may not be a case; None without a usable id."""
    id_ = value.get("id") if isinstance(value, dict) else None
    return id_ if isinstance(id_, str | int) and not isinstance(id_, bool) else None


def case_from_json(value: Any) -> Case:
    """The case in a JSON object. Raises CaseError with the location of the error."""
    case = Fields(value, "", _CASE)
    name, options = case.get("assignor", _assignor, (DEFAULT_ASSIGNOR, _NOTHING))
    configs = case.get("configs", _configs, AssignmentConfigs())
    tasks = case.read("tasks", _tasks)
    clients = case.read("clients", _clients)
    leader = case.get("leader", optional(text), None)
    if leader is not None and leader not in clients:
        raise CaseError("leader", f"there is no client {shown(leader)}")
    lags = {client.process_id: client.lags or {} for client in clients.values()}
    state = ApplicationState(
        all_tasks=tasks,
        # Lags are available through `client_states(compute_task_lags=True)` only, as in a run.
        clients={name: replace(client, lags=None) for name, client in clients.items()},
        assignment_configs=configs,
        lookup_lags=lambda: lags,
        leader=min(clients) if leader is None else ProcessId(leader),
        now_ms=case.get("now_ms", integer(0), 0),
    )
    return Case(case.get("id", _id, None), name, options, state)


def run_case(case: Case, assignor: TaskAssignor) -> CaseResult:
    """The assignment of `assignor`, valid or not. Raises all errors of the assignor."""
    assignment, error, subject = run_assignor(assignor, case.state)
    problem = None if error is AssignmentError.NONE else TaskAssignmentError(error, subject).message
    return CaseResult(case.id, tuple(assignment.assignment), problem, error)


def _id(value: Any, where: str) -> str | int | None:
    id_ = case_id({"id": value})
    if id_ is None and value is not None:
        raise CaseError(where, f"expected a text or a whole number, found {shown(value)}")
    return id_


def _assignor(value: Any, where: str) -> tuple[str, Mapping[str, Any]]:
    """A name, or `{"name", "options"}`, as in YAML."""
    if isinstance(value, str):
        return text(value, where), {}
    if not isinstance(value, dict):
        raise CaseError(where, f"expected a name or an object, found {shown(value)}")
    plugin = Fields(value, where, ("name", "options"))
    return plugin.read("name", text), plugin.get("options", _object, _NOTHING)


def _object(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise CaseError(where, f"expected an object, found {shown(value)}")
    return value


def _configs(value: Any, where: str) -> AssignmentConfigs:
    configs = Fields(value, where, _CONFIGS)
    return AssignmentConfigs(**{key: configs.read(key, read) for key, read in _CONFIGS.items() if key in value})


def _strategy(value: Any, where: str) -> str:
    if value not in STRATEGIES:
        raise CaseError(where, f"expected one of {', '.join(STRATEGIES)}, found {shown(value)}")
    return str(value)


_CONFIGS: Mapping[str, Callable[[Any, str], Any]] = {
    "acceptable_recovery_lag": integer(0),
    "max_warmup_replicas": integer(1),
    "num_standby_replicas": integer(0),
    "probing_rebalance_interval_ms": integer(0),
    "rack_aware_assignment_tags": distinct(text),
    "rack_aware_assignment_strategy": _strategy,
    "rack_aware_traffic_cost": optional(integer(0)),
    "rack_aware_non_overlap_cost": optional(integer(0)),
}


def _clients(value: Any, where: str) -> dict[ProcessId, ClientState]:
    clients: dict[ProcessId, ClientState] = {}
    for item, location in items(value, where):
        client = _client(item, location)
        if client.process_id in clients:
            raise CaseError(location, f"the client {shown(client.process_id)} is there twice")
        clients[client.process_id] = client
    if not clients:
        raise CaseError(where, "there is no client")
    return clients


def _client(value: Any, where: str) -> ClientState:
    client = Fields(value, where, _CLIENT)
    threads = client.read("threads", integer(1))
    name = client.read("process_id", text)
    return ClientState(
        process_id=ProcessId(name),
        num_processing_threads=threads,
        previous_active_tasks=frozenset(client.get("previous_active", distinct(task_id), ())),
        previous_standby_tasks=frozenset(client.get("previous_standby", distinct(task_id), ())),
        client_tags=client.get("tags", _tags, _NOTHING),
        rack_id=client.get("rack", optional(text), None),
        lags=client.get("lags", _lags, None) or {},
    )


def _tags(value: Any, where: str) -> Mapping[str, str]:
    return {key: text(tag, f"{where}.{key}") for key, tag in _object(value, where).items()}


def _lags(value: Any, where: str) -> Mapping[TaskId, int]:
    read = integer(UNKNOWN_LAG)
    lags = {}
    for key, lag in _object(value, where).items():
        lags[task_id(key, where)] = read(lag, f"{where}.{key}")
        if lag == -1:
            raise CaseError(f"{where}.{key}", f"a lag is 0 or more, {LATEST_OFFSET} of an owner, {UNKNOWN_LAG} unknown")
    return lags


def _tasks(value: Any, where: str) -> dict[TaskId, TaskInfo]:
    tasks: dict[TaskId, TaskInfo] = {}
    for item, location in items(value, where):
        task = _task(item, location)
        if task.id in tasks:
            raise CaseError(location, f"the task {task.id} is there twice")
        tasks[task.id] = task
    return tasks


def _task(value: Any, where: str) -> TaskInfo:
    fields = Fields(value, where, _TASK)
    task = fields.read("id", task_id)
    stateful = fields.get("stateful", flag, True)
    partitions = fields.get("partitions", _partitions, None) or frozenset()
    has_changelog = any(partition.is_changelog for partition in partitions)
    changelogged = fields.get("changelogged", flag, has_changelog or stateful)
    if has_changelog and not changelogged:
        raise CaseError(where, "a partition is a changelog, but the task is not changelogged")
    if changelogged and not has_changelog:  # a changelog on unknown racks
        partitions |= {TaskTopicPartition("changelog", task.partition, is_source=False, is_changelog=True)}
    return TaskInfo(
        id=task,
        state_store_names=frozenset({"store"} if stateful else ()),
        topic_partitions=partitions,
        state_bytes=fields.get("state_bytes", optional(integer(0)), None),
        records_per_second=fields.get("records_per_second", optional(number), None),
    )


def _partitions(value: Any, where: str) -> frozenset[TaskTopicPartition]:
    partitions: dict[tuple[str, int], TaskTopicPartition] = {}
    for item, location in items(value, where):
        partition = _partition(item, location)
        key = partition.topic, partition.partition
        if key in partitions:
            raise CaseError(location, f"the partition {shown(partition.topic)} {partition.partition} is there twice")
        partitions[key] = partition
    return frozenset(partitions.values())


def _partition(value: Any, where: str) -> TaskTopicPartition:
    partition = Fields(value, where, _PARTITION)
    racks = partition.get("racks", optional(distinct(text)), None)
    changelog = partition.get("changelog", flag, False)
    return TaskTopicPartition(
        topic=partition.read("topic", text),
        partition=partition.read("partition", integer(0)),
        is_source=partition.get("source", flag, not changelog),
        is_changelog=changelog,
        racks=frozenset(racks) if racks else None,
    )


# Runs a stream of cases, one per line. Only one case is in memory at a time.

LONGEST_LINE = 256 * 2**20
"""The most bytes of a line. 10,000 stateful tasks on 200 clients, with all lags, take about 30 MB."""

_BOM = b"\xef\xbb\xbf"

Assignors = Callable[[str, Mapping[str, Any]], TaskAssignor]
"""Creates an assignor from its name and options."""


def run_cases(lines: BinaryIO, assignors: Assignors, longest: int = LONGEST_LINE) -> Iterator[str]:
    """Yield a result as a line of JSON for each line that is not blank. Errors of a case are part of its result."""
    for line_number, line in _lines(lines, longest):
        result = (
            _unreadable(line_number, None, f"longer than {longest:,} bytes")
            if line is None
            else _run_line(line_number, line, assignors)
        )
        # ASCII, because a case may have texts that no encoding can represent.
        yield json.dumps(result.to_json())


def _lines(file: BinaryIO, longest: int) -> Iterator[tuple[int, bytes | None]]:
    """Lines that are not blank, with their numbers from 1 on. A line that is too long is None."""
    line_number = 0
    while line := file.readline(longest + 1):
        line_number += 1
        if len(line) > longest and not line.endswith(b"\n"):
            # Skip the rest of the line in pieces, so that no line can exhaust the memory.
            while line and not line.endswith(b"\n"):
                line = file.readline(2**20)
            yield line_number, None
            continue
        if line_number == 1:
            line = line.removeprefix(_BOM)
        if line := line.strip(b" \t\r\n"):
            yield line_number, line


def _run_line(line_number: int, line: bytes, assignors: Assignors) -> CaseResult:
    value = None
    try:
        value = parse(line)
        case = case_from_json(value)
    except CaseError as error:
        return _unreadable(line_number, case_id(value), error.message)
    try:
        with redirect_stdout(sys.stderr):  # standard output has results only
            return run_case(case, assignors(case.assignor, case.options))
    except HeadwaterError as error:
        return CaseResult(case.id, error=str(error))
    except UnknownLagError as error:
        return CaseResult(case.id, error=str(error))
    except Exception as error:  # an assignor may raise anything; other cases do not depend on it
        return CaseResult(case.id, error=f"the assignor {case.assignor} failed: {error_text(error)}")


def _unreadable(line_number: int, name: str | int | None, problem: str) -> CaseResult:
    return CaseResult(name, error=f"line {line_number}: {problem}", line=line_number)
