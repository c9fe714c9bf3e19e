"""What every test may use: a Spark session for each process of the run; and how property tests take their examples."""

from __future__ import annotations

import gc
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from headwater.hidden_values import forget_hidden_values
from headwater.tests.quick_jvm import quick_jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.runtime.driver.cluster import Cluster
    from headwater.tests.kafka.broker import KafkaBroker
    from headwater.tests.kafka.registry import RegistryServer
    from headwater.tests.s3_server import S3Server

MEMORY = Path("/dev/shm")
"""The file system in memory that Linux has."""

ROOM = 4 << 30
"""Bytes that are more than the files of all tests."""

LONGEST = (
    "runtime/driver/test_kills.py",
    "cluster/test_every_step.py",
    "cluster/test_executors.py",
    "test_extras.py",
    "conformance/test_cases.py",
    "runtime/driver/test_broken_text.py",
    "projects/test_tutorial.py",
    "cluster/test_faults.py",
    "runtime/driver/test_signals.py",
    "runtime/driver/test_failing_runs.py",
    "projects/test_flights.py",
    "projects/changes/test_changes_of_flights.py",
    "compiler/language/test_typed.py",
    "api/test_runs.py",
    "api/test_udfs.py",
    "api/test_advance.py",
    "runtime/spark/test_ended_jvm.py",
    "projects/test_secrets.py",
    "runtime/operators/test_stream_joins.py",
    "runtime/cuts/test_cuts.py",
    "runtime/operators/test_sliding.py",
    "runtime/driver/test_application.py",
    "projects/test_current_folder.py",
    "conformance/test_aggregates_of_spark.py",
    "projects/test_killed_examples.py",
    "projects/test_hidden_settings.py",
    "runtime/driver/test_damaged_stores.py",
    "runtime/operators/test_foreign_key_join.py",
    "runtime/operators/test_final_results.py",
    "conformance/by_record/test_processors.py",
    "runtime/local/test_renamed_topology.py",
    "runtime/local/test_recomputed_topology.py",
    "runtime/local/test_repartitioned_topics.py",
    "runtime/driver/test_snapshot_kills.py",
    "runtime/log/object_store/test_interleaved.py",
    "runtime/operators/test_suppress.py",
    "api/test_recomputation.py",
    "runtime/local/test_moved_flows.py",
    "test_older_versions.py",
)
"""The files that take longest. Begun last, one would run while the other processes have nothing left to do."""

# The same examples each time, so that a red run is about the change. `--hypothesis-profile random` looks for new ones.
# A busy machine may take as long as it likes for an example. Most tests leave the number of examples to the profile:
# few for `make test`, and many for `make soak`, which gives these tests another profile.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", UNHURRIED, derandomize=True, max_examples=25)
settings.register_profile("soak", UNHURRIED, derandomize=True, max_examples=200)
settings.register_profile("random", UNHURRIED, derandomize=False, max_examples=400)
settings.load_profile("repeatable")

# Hypothesis (6.170) mixes constants of all loaded modules into its examples. So a test has others in each process, by
# what ran before it (`findings/hypothesis-examples-depend-on-imports.sh`), unless there are none to mix in.
_constants = providers._get_local_constants
providers._get_local_constants = lambda: (
    providers.Constants() if settings.default is not None and settings.default.derandomize else _constants()
)


@pytest.fixture(scope="session")
def spark_session() -> Iterator[SparkSession]:
    from headwater.runtime.cluster.spark.session import start_session

    session = start_session({"master": "local[2]"}, "headwater-tests")
    yield session
    session.stop()


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch) -> Any:
    """In place of a session, for projects whose expressions tasks compute: they run on clients in this process.

    For what a run gives and raises whatever it runs on. Needs no Java.
    """
    from headwater.api import runs
    from headwater.runtime.cluster.local import LocalCluster
    from headwater.runtime.cluster.spark.cluster import SparkCluster
    from headwater.runtime.cluster.spark.on_demand import SparkOnDemand

    session, ask = object(), SparkOnDemand.session

    def cluster(given: Any, *arguments: Any, **options: Any) -> Cluster:
        return LocalCluster() if given is session else SparkCluster(given, *arguments, **options)

    monkeypatch.setattr(SparkOnDemand, "session", lambda self: session if self._given is session else ask(self))
    monkeypatch.setattr(runs, "SparkCluster", cluster)
    return session


@pytest.fixture(autouse=True)
def forgotten_values() -> Iterator[None]:
    """What one test hides in messages is none of the next one's."""
    yield
    forget_hidden_values()


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server for all tests of a process that need one: it takes some seconds to start."""
    from headwater.tests.s3_server import s3_server

    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker for all tests of the run: it takes some seconds to start. Each test has topics of its own.

    Skipped where there is no Java, or no jars; never in CI.
    """
    from headwater.tests.kafka.jars import missing

    if (reason := missing()) is not None:
        (pytest.fail if "CI" in os.environ else pytest.skip)(reason)
    from headwater.tests.kafka.shared_server import shared_broker

    folder = tmp_path_factory.getbasetemp()
    with shared_broker((folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "kafka") as broker:
        yield broker


@pytest.fixture(scope="session")
def schema_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryServer]:
    """A schema registry for all tests of the run, as `kafka` is. Each test has subjects of its own."""
    from headwater.tests.kafka.registry import missing

    if (reason := missing()) is not None:
        (pytest.fail if "CI" in os.environ else pytest.skip)(reason)
    from headwater.tests.kafka.shared_server import shared_registry

    folder = tmp_path_factory.getbasetemp()
    with shared_registry((folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "registry") as server:
        yield server


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write golden files again instead of comparing")


def pytest_configure() -> None:
    """Start JVMs quickly, and keep files in memory if possible: a commit brings its files to the disk, and waits.

    What tests start is to hear of Ctrl-C, also where a shell has begun them in the background, which ignores it.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.setdefault("SPARK_SUBMIT_OPTS", quick_jvm())
    if _takes_files_and_programs(MEMORY):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def pytest_collection_finish() -> None:
    """Leave out of each search for garbage what is there until the end: modules and tests, which are most objects."""
    gc.collect()
    gc.freeze()


def _takes_files_and_programs(folder: Path) -> bool:
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        return False
    return shutil.disk_usage(folder).free > ROOM and not os.statvfs(folder).f_flag & os.ST_NOEXEC


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Function]) -> None:
    """With several processes (`-n 3`), which take a file after the other: those that take longest begin."""
    if config.getoption("numprocesses", 0) or hasattr(config, "workerinput"):
        items.sort(key=_turn)


def _turn(item: pytest.Function) -> int:
    file = item.path.relative_to(Path(__file__).parent).as_posix()
    if file in LONGEST:
        return LONGEST.index(file)
    on_spark = item.get_closest_marker("spark") or item.get_closest_marker("cluster")
    return len(LONGEST) + (0 if on_spark else 1)


@pytest.fixture
def heard_hangups() -> Iterator[None]:
    """A closed terminal ends this process and what it starts, also where the tests run below `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be written."""
    return bool(request.config.getoption("--update-golden"))
