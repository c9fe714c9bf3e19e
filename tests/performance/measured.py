"""What an epoch does, and what an application does that has nothing to read.

An epoch's work is the difference of two runs, of which one has an epoch more. So all that threads beside the loop do is
in it, whenever they do it.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from headwater.runtime.driver.events import Observer, Observers
from headwater.runtime.driver.runs import run_topologies
from headwater.tests.performance.cases import Case, CountedCluster, Feeding
from headwater.tests.performance.counting import counting, counting_looks, length
from headwater.tests.runtime.local.local_application import APPLICATION, LocalApplication

FEWEST_EPOCHS = 2
"""The first epoch also makes folders and stores."""

ROUNDS = 5


def of_an_epoch(case: Case, root: Path) -> dict[str, int]:
    """All that one more epoch does. `root`: a folder for it."""
    less, more = (_counts_of_epochs(case, root / str(epochs), epochs) for epochs in (FEWEST_EPOCHS, FEWEST_EPOCHS + 1))
    return difference(more, less)


def of_a_run(case: Case, root: Path) -> dict[str, int]:
    """All that a run does, from its claim to its end, that has nothing to read."""
    app = LocalApplication(root, case.parts)
    case.feed(app, 0)
    app.run()
    with counting(root) as counts:
        app.run()
    return dict(sorted(counts.done.items()))


def of_idle_rounds(case: Case, root: Path) -> dict[str, int]:
    """All that a lasting run does in ROUNDS rounds of its loop without records, with the files that it looks for."""
    less, more = (_counts_of_rounds(case, root / str(rounds), rounds) for rounds in (ROUNDS, 2 * ROUNDS))
    return difference(more, less)


def _counts_of_epochs(case: Case, root: Path, epochs: int) -> Counter[str]:
    app, cluster = LocalApplication(root, case.parts), CountedCluster()
    case.feed(app, 0)
    with counting(root) as counts:

        def feed(epoch: int) -> None:
            with counts.of_others():
                case.feed(app, epoch)

        _run(app, cluster, Feeding(feed, epochs, case.last, cluster.stop), case.consumed(epochs))
    counts.add("bytes of plans", times=cluster.plan_bytes)
    for path in (root / "log/commits" / APPLICATION).glob("*.json"):
        counts.add("bytes written", str(path), length(path.read_text()))
    for path in (root / "log/segments" / APPLICATION).rglob("*.seg"):
        counts.add("bytes written", str(path), path.stat().st_size)
    return counts.done


def _counts_of_rounds(case: Case, root: Path, rounds: int) -> Counter[str]:
    app = LocalApplication(root, case.parts)
    case.feed(app, 0)
    app.run()
    with counting(root) as counts, counting_looks(counts):
        _run(app, CountedCluster(rounds), Observers(), 0)
    return counts.done


def _run(app: LocalApplication, cluster: CountedCluster, observer: Observer, records: int) -> None:
    """A lasting run, until somebody stops it."""
    results = run_topologies(
        [app.topology], app.settings(), cluster, until_caught_up=False, observer=observer, stop=cluster.stop
    )
    (result,) = results.applications
    assert (result.status, result.error, result.records) == ("interrupted", None, records), result


def difference(more: Counter[str], less: Counter[str]) -> dict[str, int]:
    """What was done more often, and how much more."""
    found = {what: more[what] - less[what] for what in sorted({*more, *less})}
    return {what: times for what, times in found.items() if times}
