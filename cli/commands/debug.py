"""`headwater debug`: checks that a run has everything it needs. A failed check says how to fix it."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...errors import HeadwaterError, MachineError
from ...private_files import make_folder, open_to_others, write_bytes
from ...readable_text import counted, json_text, readable
from ..options import ProjectOptions, format_option, project_options
from ..printing import tables
from ..printing.terminal import print_line

if TYPE_CHECKING:
    from ...api.project import Project


_KAFKA = "kafka"

_PROBE_BYTES = 1 << 20
"""So much is written to the disk of the state directory, and removed."""


@dataclass(frozen=True)
class CheckResult:
    """The result of one check. `way_out`: how to fix it, None if nothing is wrong. `doubtful`: it may be intended."""

    name: str
    found: str
    way_out: str | None = None
    doubtful: bool = False

    @property
    def verdict(self) -> str:
        """`ok`, `warn` or `fail`."""
        return "ok" if self.way_out is None else "warn" if self.doubtful else "fail"


class _Doubt(HeadwaterError):
    """A finding that does not stop a run."""


def _python() -> str:
    version = ".".join(map(str, sys.version_info[:3]))
    return f"{version}, {sys.executable}"


def _packages() -> str:
    import pandas
    import pyarrow

    if int(pandas.__version__.split(".")[0]) >= 3:
        raise HeadwaterError(f"pandas {pandas.__version__}", "install pandas below 3")
    return f"pyarrow {pyarrow.__version__}, pandas {pandas.__version__}"


def _java() -> str:
    from ...runtime.cluster.spark.jvm import check_java

    java = check_java()
    return f"{java.version}, {java.executable}"


def _profile(project: Project) -> str:
    parsed = project.parse()
    if not parsed.ok:
        raise HeadwaterError("the project has errors", "`headwater parse` lists them")
    return f"{parsed.profile_name}, target {parsed.target_name}"


def _log(project: Project) -> str:
    from ...runtime.state.directory import log_location

    settings, log = project.settings(), project.log()
    applications = counted(len(log.applications()), "application")
    return f"{settings.log.name} at {log_location(settings.log.name, settings.log.options)}, {applications}"


def _state(project: Project) -> str:
    from ...runtime.cluster.spark.job import local_state
    from ...runtime.state.machine import reject_network_file_system

    settings = project.settings()
    path = local_state(settings)
    if path is None:
        return f"{settings.state_dir} on the executors' machines; a run checks it there"
    existing = next(parent for parent in (path, *path.parents) if parent.exists())
    reject_network_file_system(existing)
    try:
        make_folder(existing)  # does nothing, unless it is a file
        with tempfile.TemporaryDirectory(prefix=".headwater-", dir=existing) as folder:
            write_bytes(Path(folder) / "written", bytes(_PROBE_BYTES))
    except OSError as error:
        raise MachineError.from_error(error) from error
    return str(path)


def _rights(project: Project) -> str:
    """Check who else can read records (in the log and the stores) and profile settings (in generated code)."""
    from ...api.target import TARGET
    from ...runtime.cluster.spark.job import local_state

    settings = project.settings()
    folders = [Path(str(settings.log.options["path"]))] if "path" in settings.log.options else []
    state_dir = local_state(settings)
    folders += [] if state_dir is None else [state_dir]
    open_paths = [(path, sentence) for path in (*folders, project.root / TARGET) if (sentence := open_to_others(path))]
    if open_paths:
        paths = " ".join(shlex.quote(str(path)) for path, _ in open_paths)
        raise _Doubt(
            "; ".join(sentence for _, sentence in open_paths), f"if nobody else is to read them: chmod -R go= {paths}"
        )
    return "log, state and target are readable by their owner only"


def _spark(project: Project) -> str:
    import pyspark

    from ...runtime.cluster.spark.session import differences, start_session

    session = start_session(project.settings().spark, "headwater-debug")
    try:
        wrong = differences(session)
        master = session.sparkContext.master
        rows = session.range(1).count()
    finally:
        session.stop()
    if wrong:
        name, (needed, actual) = next(iter(wrong.items()))
        raise HeadwaterError(f"{name} is {actual!r}, not {needed!r}", "remove it from the `spark:` section")
    if rows != 1:
        raise HeadwaterError(f"{master} counts one row as {rows}", "look into Spark's own log")
    return f"{pyspark.__version__} on {master}"


def _kafka(project: Project) -> str:
    reports = project.inspect_kafka(records=1)
    findings = [found for report in reports for found in report.all_findings if found[1].stops]
    if findings:
        about, finding = findings[0]
        others = f", and {len(findings) - 1} more" if len(findings) > 1 else ""
        raise HeadwaterError(f"{about}: {finding.what}{others}", "`headwater debug kafka` shows all of it")
    topics = counted(sum(len(report.topics) for report in reports), "topic")
    return f"{', '.join(f'{report.name} at {report.servers}' for report in reports)}, {topics}"


_MACHINE_CHECKS: dict[str, Callable[[], str]] = {
    "python": _python,
    "packages": _packages,
    "java": _java,
}
_PROJECT_CHECKS: dict[str, Callable[[Project], str]] = {
    "profile": _profile,
    "log": _log,
    "state": _state,
    "rights": _rights,
    "spark": _spark,
    _KAFKA: _kafka,
}
CHECKS = (*_MACHINE_CHECKS, *_PROJECT_CHECKS)
"""A check returns its finding, or raises a HeadwaterError with a hint how to fix it."""


@click.command()
@project_options
@click.argument("checks", nargs=-1, type=click.Choice(CHECKS), metavar="[CHECK]...")
@format_option("table", "json", default="table")
def command(options: ProjectOptions, checks: tuple[str, ...], style: str) -> None:
    """Check that a run has everything it needs.

    CHECK: python, packages, java, profile, log, state, rights, spark, kafka; default: all of them, but kafka only in a
    target that has it. The first three need no project.

    `debug kafka` alone shows clusters, the selected topics, rights, and their last records, decoded.
    """
    if checks == (_KAFKA,):
        raise SystemExit(_debug_kafka(options, style))
    if options.select:
        raise click.UsageError("only `debug kafka` takes --select")
    results = list(_run(options, checks))
    if style == "json":
        click.echo(json_text([{**asdict(result), "verdict": result.verdict} for result in results]))
    else:
        tables.show(
            ("check", "", "found"), [(result.name, result.verdict, readable(result.found)) for result in results]
        )
        for result in results:
            if result.way_out is not None:
                print_line(f"{result.name}: {result.way_out}", err=True)
    raise SystemExit(1 if any(result.verdict == "fail" for result in results) else 0)


def _debug_kafka(options: ProjectOptions, style: str) -> int:
    """Print everything about the clusters. Returns the exit code."""
    from ..printing.kafka import print_reports, report_json

    reports = options.warned_project().inspect_kafka()
    if style == "json":
        click.echo(json_text(report_json(reports)))
    else:
        print_reports(reports)
    return 1 if any(finding.stops for report in reports for _, finding in report.all_findings) else 0


def _run(options: ProjectOptions, names: tuple[str, ...]) -> Iterator[CheckResult]:
    @cache
    def project() -> Project:
        return options.warned_project()

    for name in names or CHECKS:
        if name == _KAFKA and not names and not _has_kafka(project):
            continue
        try:
            check = _MACHINE_CHECKS.get(name)
            yield CheckResult(name, check() if check else _PROJECT_CHECKS[name](project()))
        except HeadwaterError as error:
            yield CheckResult(name, error.message, error.hint or "", isinstance(error, _Doubt))


def _has_kafka(project: Callable[[], Project]) -> bool:
    """Whether the target has clusters of Kafka; False if that cannot be known."""
    try:
        return bool(project().settings().kafka)
    except HeadwaterError:
        return False
