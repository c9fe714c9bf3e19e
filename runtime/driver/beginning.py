"""How a run finds its applications in the log at its start, and why it may refuse them. None of this needs Spark."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..chosen_plugins import ChosenPlugins, origin_of
from ..log.descriptions import TopologyDescription
from ..log.log import Log
from ..log.state import LogState
from ..progress.committed import Committed
from ..progress.committer import Committer
from ..progress.compatibility import differences
from ..progress.errors import ConsumedRecordsMissingError, IncompatibleStateError
from ..progress.inputs import check_topics
from ..progress.positions import gaps
from ..state.directories.known_log import check_known_by, place_of
from ..topology import Settings, Topology


@dataclass(frozen=True)
class Begun:
    """An application as the run found it at its start."""

    plugins: ChosenPlugins
    log: Log
    own: LogState
    committer: Committer


def check_log(topologies: Iterable[Topology], settings: Settings, state_dir: Path | None) -> None:
    """Check that the log is the one that the stores on this machine were made of. Raises OtherLogError.

    This is done for all topologies of a run before any of them creates a new log in place of a missing one.
    `state_dir`: the folder of the stores; None if clients keep theirs on other machines.
    """
    if state_dir is not None:
        log = ChosenPlugins(origin_of(settings)).log(settings.log)
        place = place_of(settings.log.name, settings.log.options)
        check_known_by(state_dir, [topology.application for topology in topologies], log.identity(), place)


def look(topology: Topology, settings: Settings) -> Begun:
    """What the application has committed. Raises LogError."""
    plugins = ChosenPlugins(origin_of(settings))
    log = plugins.log(settings.log)
    log.check()
    own = LogState.load(log.commits(topology.application))
    return Begun(plugins, log, own, Committer(own))


def check_state(topology: Topology, committed: Committed) -> None:
    """Refuse to start if the committed state does not fit the topology.

    Raises WriterChangedError, TopicChangedError, IncompatibleStateError, ConsumedRecordsMissingError.
    """
    own = committed.own
    own.refresh()  # the previous holder of the state directories may have committed
    committed.refresh()  # second, so that each writer is at least as new as what was consumed from it
    check_topics(topology, committed)
    current = TopologyDescription.of(topology, committed.begun)
    places = {store: place for part in topology.subtopologies for store, place in part.places.items()}
    found = tuple(differences(own.topology, current, own.tasks.consumed, places))
    if found:
        raise IncompatibleStateError(topology.application, found)
    missing = tuple(gaps(topology, committed))
    if missing:
        raise ConsumedRecordsMissingError(topology.application, missing)
