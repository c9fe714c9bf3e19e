"""`headwater simulate`: shows how an assignor would place a project's tasks as clients come and go."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...errors import HeadwaterError
from ...readable_text import json_text
from ...suggestions import guess
from ..given_files import OutputPath
from ..options import Parsed, ProjectOptions, WholeNumber, format_option, project_options
from ..printing import tables
from ..printing.findings import warn
from ..printing.terminal import ERROR, WARNING, print_styled

if TYPE_CHECKING:
    from ...api.project import Project
    from ...runtime.simulation.report import Assertion, Simulation
    from ...runtime.simulation.rounds import Scenario

_SVG = ".svg"
_ROUND = ("round", "at", "why", "clients", "moved", "standbys", "down", "for", "restored")
_LOADS = ("tasks per thread", "x-rack")
_MOST_UPDATES = 10**9


def _names(text: str) -> tuple[str, ...]:
    """`a,b,c`: different names."""
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise ValueError(f"{text!r} is not a list of different names such as a,b,c")
    for name in names:
        if not name.isprintable() or " " in name or ";" in name:  # cannot be part of an event or a picture
            raise ValueError(f"{name!r} has a space, a semicolon or an unprintable character")
    return names


def _limit(text: str) -> tuple[str, float]:
    """The measure and the limit of `max_moved=5`, in ms, bytes or a number."""
    from ...runtime.simulation.report import MEASURES

    name, equals, limit = text.partition("=")
    if name not in MEASURES:
        hint = guess(name, MEASURES, f"known: {', '.join(MEASURES)}")
        raise ValueError(f"there is no measure {name!r}; {hint}")
    if not equals:
        raise ValueError(f"{text!r} has no limit: {name}=...")
    try:
        return name, MEASURES[name].read(limit)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


_NAMES = Parsed("names", _names)
_LIMIT = Parsed("measure=limit", _limit)


def _rate(text: str) -> Any:
    from ...runtime.simulation.model import Rate

    return Rate.parse(text)


def _updates(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= _MOST_UPDATES:  # also rejects NaN
        raise ValueError(f"{text!r} is not a number from 0 to {_MOST_UPDATES:,}")
    return value


def _size(text: str) -> int:
    from ...runtime.simulation.model import size_bytes

    return size_bytes(text)


@click.command()
@project_options
@click.option("--clients", type=WholeNumber(1, 1000), default=3, show_default=True, help="Clients at the start.")
@click.option("--threads", type=WholeNumber(1, 1000), default=2, show_default=True, help="Threads of each client.")
@click.option("--racks", type=_NAMES, default=(), metavar="R1,R2,...", help="Racks, given to clients in turn.")
@click.option(
    "--replication",
    type=WholeNumber(1),
    default=1,
    show_default=True,
    help="Racks with a replica of a partition.",
)
@click.option("--assignor", metavar="NAME", help="Instead of the topology's.")
@click.option("--standby-replicas", type=WholeNumber(0), metavar="N", help="Instead of the topology's.")
@click.option("--max-warmup-replicas", type=WholeNumber(1), metavar="N", help="Instead of the topology's.")
@click.option(
    "--events", default="", metavar="EVENTS", help='"kill c2; kill rack r1; add 3; add 1 r1; restart c1 2m; roll 30s".'
)
@click.option(
    "--restore-rate",
    type=Parsed("rate", _rate),
    default="100000",
    show_default=True,
    help="How fast a client restores: records a second, or bytes (20MB).",
)
@click.option(
    "--state-records",
    type=WholeNumber(0, 10**12),
    default=1_000_000,
    show_default=True,
    help="Changelog records of a stateful task that has not run yet.",
)
@click.option(
    "--state-size",
    type=Parsed("size", _size),
    default="100MB",
    show_default=True,
    help="Their bytes.",
)
@click.option(
    "--update-rate",
    type=Parsed("rate", _updates),
    default=100.0,
    show_default=True,
    help="Records a second that a running task adds to its changelogs.",
)
@click.option("--picture", type=OutputPath(path_type=Path, dir_okay=False), metavar="FILE.svg", help="Draw the rounds.")
@click.option(
    "--assert",
    "limits",
    type=_LIMIT,
    multiple=True,
    metavar="MEASURE=LIMIT",
    help="Exit with 1 above it.",
)
@format_option("table", "json", default="table")
def command(
    options: ProjectOptions,
    picture: Path | None,
    limits: Sequence[tuple[str, float]],
    style: str,
    **scenario: Any,
) -> None:
    """Try an assignor on a model of clients that come and go.

    Shows, round by round, which tasks move, how long they are down, what is restored and how tasks are spread. State
    sizes come from the project's log; for tasks that have not run, from --state-records and --state-size.
    """
    if picture is not None:
        _check_picture(picture)
    if scenario["replication"] > max(len(set(scenario["racks"])), 1):
        message = "there are fewer racks: name more with --racks" if scenario["racks"] else "it needs --racks"
        raise click.BadParameter(message, param_hint="--replication")
    if not scenario["racks"] and any(name == "max_cross_rack" for name, _ in limits):
        raise click.BadParameter("max_cross_rack needs --racks", param_hint="--assert")
    from ...runtime.simulation.report import check

    with options.project() as project, redirect_stdout(sys.stderr):  # output of an assignor is no result
        _check_assignor(project, scenario["assignor"])
        simulations = project.simulate(_scenario(**scenario))
        warn(project)
    if not simulations and limits:  # otherwise an empty check would pass
        raise HeadwaterError("there is no topology to simulate, so no limit can be checked")
    if not simulations:
        print_styled(WARNING, "there is no topology to simulate", err=True)
    checked = [check(simulation, name, limit) for simulation in simulations for name, limit in limits]
    if style == "json":
        click.echo(_json(simulations, checked))
    else:
        for simulation in simulations:
            _show(simulation)
    for simulation in simulations:
        for sentence in simulation.doubts():
            print_styled(WARNING, sentence, err=True)
    if picture is not None:
        _draw(picture, simulations)
    for assertion in checked:
        if not assertion.holds:
            print_styled(ERROR, assertion.sentence, err=True)
    raise SystemExit(0 if all(assertion.holds for assertion in checked) else 1)


def _check_picture(picture: Path) -> None:
    """Raise a usage error for a picture that cannot be written, before all the work."""
    if picture.suffix.lower() != _SVG:
        raise click.BadParameter("pictures are SVG: give a name that ends in .svg", param_hint="--picture")
    if not picture.parent.is_dir():
        raise click.BadParameter(f"there is no folder {picture.parent}", param_hint="--picture")


def _draw(picture: Path, simulations: Sequence[Simulation]) -> None:
    from ...runtime.simulation.picture import draw

    try:
        picture.write_text(draw(simulations), "utf-8")
    except OSError as error:
        raise HeadwaterError(f"{picture} cannot be written: {error.strerror}") from error


def _check_assignor(project: Project, name: str | None) -> None:
    """Raise a usage error if the requested assignor does not exist."""
    from ...plugins.errors import UnknownPluginError

    assignors = project.assignors()
    if name is not None and name not in assignors:
        error = UnknownPluginError(assignors.kind, name, assignors)
        raise click.BadParameter(f"{error.message}; {error.hint}", param_hint="--assignor")


def _scenario(
    restore_rate: Any, state_records: int, state_size: int, update_rate: float, replication: int, **rest: Any
) -> Scenario:
    from ...runtime.simulation.model import Assumptions, Size
    from ...runtime.simulation.rounds import Scenario

    assumptions = Assumptions(restore_rate, Size(state_records, state_size), update_rate, replication)
    return Scenario(**rest, assumptions=assumptions)


def _json(simulations: Sequence[Simulation], checked: Sequence[Assertion]) -> str:
    from ...runtime.simulation.report import to_json

    content = {
        "simulations": [to_json(simulation) for simulation in simulations],
        "assertions": [
            {
                "name": assertion.name,
                "limit": assertion.limit,
                "value": assertion.value,
                "holds": assertion.holds,
                "message": assertion.sentence,
            }
            for assertion in checked
        ],
    }
    return json_text(content, indent=2)


def _show(simulation: Simulation) -> None:
    """Print a table of the rounds, then one with the final placement."""
    from ...runtime.simulation.model import shown_duration, shown_size

    application = simulation.application
    source = "as in the log" if application.measured else "as assumed"
    count = len(application.tasks)
    summary = (
        f"{application.name}: {count} task{'s' if count != 1 else ''}, assignor {application.assignor}, "
        f"standby replicas: {application.configs.num_standby_replicas}, state {source}"
    )
    print_styled((summary, "bold"))
    rows = []
    for round_ in simulation.rounds:
        racks = simulation.cross_rack(round_)
        rows.append(
            (
                str(round_.number),
                shown_duration(round_.at_ms),
                round_.cause,
                str(len(round_.clients)),
                str(len(round_.moves)),
                str(round_.new_standbys),
                str(len(round_.restored.down)),
                shown_duration(round_.down_ms),
                shown_size(round_.restored.bytes),
                f"{min(round_.loads.values()):.3g} - {max(round_.loads.values()):.3g}",
                "-" if racks is None else str(racks),
            )
        )
    tables.show((*_ROUND, *_LOADS), rows, right=(0, 3, 4, 5, 6, 7, 8, 9, 10))
    click.echo()
    last = simulation.rounds[-1]
    placed = [
        (
            client.name,
            client.rack or "-",
            " ".join(map(str, last.placements[client.name].active)) or "-",
            " ".join(map(str, last.placements[client.name].standby)) or "-",
        )
        for client in last.clients
    ]
    tables.show(("client", "rack", "active", "standby"), placed)
    click.echo()
