"""`headwater debug`: checks that everything a run needs is there. Each failed check says how to fix it."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...errors import HeadwaterError, MachineError
from ...private_files import make_folder, open_to_others, write_bytes
from ...readable_text import readable
from ..options import ProjectOptions, whole_project_options
from ..printing import tables
from ..printing.findings import warn_of_call
from ..printing.terminal import tell

if TYPE_CHECKING:
    from ...api.project import Project


_PROBE_BYTES = 1 << 20
"""So much is written to the disk of the state directory, and removed."""


@dataclass(frozen=True)
class Checked:
    """What one check found. `way_out` says how to fix it; None if nothing is wrong. `doubtful`: it may be intended."""

    name: str
    found: str
    way_out: str | None = None
    doubtful: bool = False

    @property
    def verdict(self) -> str:
        """`ok`, `warn` or `fail`."""
        return "ok" if self.way_out is None else "warn" if self.doubtful else "fail"


class _Doubt(HeadwaterError):
    """Something that does not stop a run."""


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
    from ...runtime.driver.event_texts import counted
    from ...runtime.state.directory import log_location

    settings, log = project.settings(), project.log()
    held = counted(len(log.applications()), "application")
    return f"{settings.log.name} at {log_location(settings.log.name, settings.log.options)}, {held}"


def _state(project: Project) -> str:
    from ...runtime.cluster.spark.job import local_state
    from ...runtime.state.machine import reject_network_file_system

    settings = project.settings()
    path = local_state(settings)
    if path is None:
        return f"{settings.state_dir} on the executors' machines, which a run looks at"
    there = next(each for each in (path, *path.parents) if each.exists())
    reject_network_file_system(there)
    try:
        make_folder(there)  # it is there, unless it is a file
        with tempfile.TemporaryDirectory(prefix=".headwater-", dir=there) as folder:
            write_bytes(Path(folder) / "written", bytes(_PROBE_BYTES))
    except OSError as error:
        raise MachineError.from_error(error) from error
    return str(path)


def _rights(project: Project) -> str:
    """Check who may read records (in the log and the stores) and the profile's settings (in generated code)."""
    from ...api.target import TARGET
    from ...runtime.cluster.spark.job import local_state

    settings = project.settings()
    folders = [Path(str(settings.log.options["path"]))] if "path" in settings.log.options else []
    state_dir = local_state(settings)
    folders += [] if state_dir is None else [state_dir]
    found = [(path, told) for path in (*folders, project.root / TARGET) if (told := open_to_others(path))]
    if found:
        paths = " ".join(shlex.quote(str(path)) for path, _ in found)
        raise _Doubt("; ".join(told for _, told in found), f"if nobody else is to read them: chmod -R go= {paths}")
    return "log, state and target are for their owner only"


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
        name, (needed, found) = next(iter(wrong.items()))
        raise HeadwaterError(f"{name} is {found!r}, not {needed!r}", "remove it from the `spark:` section")
    if rows != 1:
        raise HeadwaterError(f"{master} counts one row as {rows}", "look into Spark's own log")
    return f"{pyspark.__version__} on {master}"


_OF_THE_MACHINE: dict[str, Callable[[], str]] = {
    "python": _python,
    "packages": _packages,
    "java": _java,
}
_OF_THE_PROJECT: dict[str, Callable[[Project], str]] = {
    "profile": _profile,
    "log": _log,
    "state": _state,
    "rights": _rights,
    "spark": _spark,
}
CHECKS = (*_OF_THE_MACHINE, *_OF_THE_PROJECT)
"""Each check returns what it found, or raises a HeadwaterError whose hint says how to fix it."""


@click.command()
@whole_project_options
@click.argument("checks", nargs=-1, type=click.Choice(CHECKS), metavar="[CHECK]...")
def command(options: ProjectOptions, checks: tuple[str, ...]) -> None:
    """Check that a run has all it needs.

    CHECK: python, packages, java, profile, log, state, rights, spark; without one, all of them. The first three need no
    project.
    """
    done = list(_run(options, checks or CHECKS))
    rows = [(each.name, each.verdict, readable(each.found)) for each in done]
    tables.show(("check", "", "found"), rows)
    for each in done:
        if each.way_out is not None:
            tell(f"{each.name}: {each.way_out}", err=True)
    raise SystemExit(1 if any(each.verdict == "fail" for each in done) else 0)


def _run(options: ProjectOptions, names: tuple[str, ...]) -> Iterator[Checked]:
    @cache
    def project() -> Project:
        found = options.project()
        warn_of_call(found)
        return found

    for name in names:
        try:
            check = _OF_THE_MACHINE.get(name)
            yield Checked(name, check() if check else _OF_THE_PROJECT[name](project()))
        except HeadwaterError as error:
            yield Checked(name, error.message, error.hint or "", isinstance(error, _Doubt))
