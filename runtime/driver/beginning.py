"""How a run finds its applications in the log at its start, and why it may refuse them. None of this needs Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import HeadwaterError
from ..changes.errors import IncompatibleStateError
from ..changes.found import RECORDS_MISSING, changes_of, lost_records
from ..changes.model import Change, Verdict
from ..changes.recompute.onward import with_real_ways
from ..changes.recompute.resets import RESET
from ..chosen_plugins import ChosenPlugins, log_of, origin_of
from ..log.placed.log import PlacedLog
from ..log.state import LogState
from ..progress.committed import Committed
from ..progress.committer import Committer
from ..progress.errors import ConsumedRecordsMissingError
from ..state.directories.known_log import check_known_by, place_of
from ..topology import Settings, Topology


@dataclass(frozen=True)
class Begun:
    """An application as the run found it at its start. `identity`: of the log."""

    plugins: ChosenPlugins
    log: PlacedLog
    own: LogState
    committer: Committer
    identity: str


def check_log(topologies: Iterable[Topology], settings: Settings, state_dir: Path | None) -> None:
    """Check that the log is the one that the stores on this machine were made of. Raises OtherLogError.

    This is done for all topologies of a run before any of them creates a new log in place of a missing one.
    `state_dir`: the folder of the stores; None if clients keep theirs on other machines.
    """
    if state_dir is not None:
        place, known = place_of(settings.log.name, settings.log.options), log_of(settings).identity()
        names = [topology.application for topology in topologies]
        names += [former for name in names for former in settings.former_names.get(name, ())]
        check_known_by(state_dir, names, known, place)


class LogGoneError(HeadwaterError):
    """The log that an application runs on is not at its place any more: `log`."""

    def __init__(self, application: str, log: str) -> None:
        super().__init__(
            f"the log at {log} has gone while {application} ran: it was removed, moved, or is not mounted any more",
            "put it back and run again: what was committed counts, and nothing else was changed",
        )
        self.application = application
        self.log = log


def gone(begun: Begun, topology: Topology, settings: Settings) -> HeadwaterError | None:
    """Why a run finds no commits any more: the log has gone, or its commits have. None if they were given up properly,
    by a full refresh.
    """
    try:
        if begun.log.identity() != begun.identity:
            return LogGoneError(topology.application, place_of(settings.log.name, settings.log.options))
        begun.log.commits(topology.application).latest()
    except HeadwaterError as error:
        return error
    return None


def look(topology: Topology, settings: Settings) -> Begun:
    """What the application has committed. Raises LogError."""
    plugins = ChosenPlugins(origin_of(settings))
    log = log_of(settings)
    log.check()
    own = LogState.load(log.commits(topology.application))
    return Begun(plugins, log, own, Committer(own), log.identity())


def check_state(topology: Topology, committed: Committed, known: Sequence[Change] = ()) -> None:
    """Refuse to start if the committed state does not fit the topology. `known`: what was decided of changes already,
    to refuse them or to go on (see `Judged.known`). A store that somebody has asked for since is left to the next run.

    Raises IncompatibleStateError, ConsumedRecordsMissingError.
    """
    own = committed.own
    own.refresh()  # the previous holder of the state directories may have committed
    committed.refresh()  # second, so that each writer is at least as new as what was consumed from it
    decided = {(each.kind, each.subject) for each in known}
    left = (each for each in changes_of(topology, committed) if each.kind != RESET)
    found = (each for each in left if (each.kind, each.subject) not in decided)
    refused = with_real_ways(each for each in (*known, *found) if each.verdict is Verdict.REFUSES)
    if changed := [change for change in refused if change.kind != RECORDS_MISSING]:
        raise IncompatibleStateError(topology.application, changed)
    missing = tuple(lost_records(topology, committed))
    if missing:
        raise ConsumedRecordsMissingError(topology.application, missing)
