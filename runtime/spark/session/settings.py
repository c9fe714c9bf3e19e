"""Settings of a Spark session: those that results rest on, those that a profile may change."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ....errors import HeadwaterError
from ...environment import LookedUp
from ..executor_link import REQUEST_PROPERTY
from ..worker import PLAN_PROPERTY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


LOCALITY_WAIT = "1h"
"""A task waits for its own client. A lost client is noticed by watching the executors, not by this wait."""


EXPRESSIONS: Mapping[str, str] = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.charAsVarchar": "false",
    "spark.sql.chunkBase64String.enabled": "true",
    "spark.sql.columnNameOfCorruptRecord": "_corrupt_record",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.function.concatBinaryAsString": "false",
    "spark.sql.function.eltOutputAsString": "false",
    "spark.sql.icu.caseMappings.enabled": "true",
    "spark.sql.jsonGenerator.ignoreNullFields": "true",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.preserveCharVarcharTypeInfo": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.variable.substitute": "false",
}
"""Settings that decide what an expression means: how its text is read, and what its functions return.

With `variable.substitute` Spark would insert environment variables and settings into the text (`'${env:HOME}'`) before
it parses it, so the contents of a setting would become SQL.
"""


DYNAMIC = "spark.dynamicAllocation"
"""The prefix of settings of dynamic allocation: Spark asks its cluster for more executors when tasks wait for cores."""


FEWEST_EXECUTORS = f"{DYNAMIC}.minExecutors"
"""Its least number of executors. With none, nothing would ever begin: jobs are placed on executors that are there."""


_NEVER = f"{2**31 - 1}s"
"""The longest time that Spark takes for idle executors, which means never. Its own default for those that cache."""


LEGACY = "spark.sql.legacy."
"""The prefix of settings that restore the behaviour of older versions of Spark."""


PINNED: Mapping[str, str] = {
    "spark.speculation": "false",
    "spark.python.task.killTimeout": "0ms",
    f"{DYNAMIC}.executorIdleTimeout": _NEVER,
    f"{DYNAMIC}.cachedExecutorIdleTimeout": _NEVER,
    f"{DYNAMIC}.shuffleTracking.timeout": _NEVER,
    "spark.locality.wait": LOCALITY_WAIT,
    "spark.scheduler.mode": "FAIR",
    "spark.task.maxFailures": "1",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(256 << 20),
    "spark.python.worker.reuse": "true",
    "spark.executor.killOnFatalError.depth": "0",
    **EXPRESSIONS,
}
"""Settings that correct results depend on. A profile cannot change them.

`maxFailures`: one failure fails the job. The driver's loop decides what runs again; a retry by Spark would write under
the same attempt. `killOnFatalError`: a value that exhausts the JVM's stack or memory fails its task and not the JVM, so
that the record can be found and named. Dynamic allocation may add executors, but not remove idle ones: they hold
stores, and a pause in the input would cost a restore. Timeouts are Spark's own: an executor that is silent for longer
than the profile's `deadline` is given up by the driver's loop, and ended by Spark after two minutes only.
"""


DEFAULTS: Mapping[str, str] = {
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.artifact.isolation.enabled": "false",
    "spark.python.daemon.module": "headwater.runtime.spark.worker_daemon",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",  # tells a worker that crashed from one killed
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
"""Settings that a profile's `spark:` section may override. On a cluster, Spark chooses the driver's address."""


LOCALE = "-Duser.language=en -Duser.country=US -Duser.variant="
"""In Turkish, `lower('I')` is another letter. The language of a machine must not change results."""


_JAVA_OPTIONS = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")


_REDACTED = "spark.redaction.regex"
"""The setting with the pattern of settings whose values Spark hides in event logs and on its pages."""


_SPARKS_SECRETS = "(?i)secret|password|token|access[.]?key"
"""Its default (Spark's configuration page, runtime environment)."""


_OF_JOBS = (PLAN_PROPERTY, REQUEST_PROPERTY)
"""Job properties with the options of the log, which may be secrets."""


class SettingError(HeadwaterError):
    """A profile changes a Spark setting that is pinned, sets a legacy one, or allows no executor: `name`, `value`."""

    def __init__(self, name: str, value: str, needed: str = "") -> None:
        needed = needed or (f"needs {PINNED[name]!r}" if name in PINNED else "needs Spark as it is")
        super().__init__(
            f"the profile sets {name} to {value!r}, but Headwater {needed}",
            "remove it from the `spark:` section",
        )
        self.name = name
        self.value = value


class SessionError(HeadwaterError):
    """An existing Spark session has settings that would change results.

    `differences`: name -> (needed, found).
    """

    def __init__(self, differences: Mapping[str, tuple[str, str]]) -> None:
        listed = "".join(
            f"\n  - {name} is {found!r}, not {needed!r}" if needed else f"\n  - {name} is set, to {found!r}"
            for name, (needed, found) in differences.items()
        )
        super().__init__(
            f"with this Spark session expressions would give other results:{listed}",
            "change these settings of the session, or give none: Headwater starts one",
        )
        self.differences = dict(differences)


class ConnectError(HeadwaterError):
    """A Spark Connect session was found or asked for."""

    def __init__(self) -> None:
        super().__init__(
            "Headwater places tasks on executors, which Spark Connect cannot do",
            "use a classic master such as local[2], spark://host:7077, yarn or k8s://...",
        )


def settings_of(profile: Mapping[str, Any]) -> dict[str, str]:
    """The Spark settings of a profile's `spark:` section, with Headwater's own. `master` is `spark.master`.

    Raises SettingError for a pinned setting with another value, ConnectError for a `remote`.
    """
    given = {_name(key): _text(value) for key, value in profile.items() if value is not None}
    if "spark.remote" in given or given.get("spark.master", "").startswith("sc://"):
        raise ConnectError()
    for name, value in given.items():
        if name.startswith(LEGACY) or (name in PINNED and value != PINNED[name]):
            raise SettingError(name, value)
    local = given.get("spark.master", "local[2]").startswith("local")
    defaults = DEFAULTS if local else {k: v for k, v in DEFAULTS.items() if not k.startswith("spark.driver.")}
    settings = {"spark.master": "local[2]"} | dict(defaults) | given | dict(PINNED)
    _begin_with_an_executor(settings)
    secret = [*_OF_JOBS, *(_name(key) for key, value in profile.items() if isinstance(value, LookedUp))]
    settings[_REDACTED] = f"{given.get(_REDACTED, _SPARKS_SECRETS)}|^(?:{'|'.join(map(re.escape, secret))})$"
    settings |= dict.fromkeys(_OF_JOBS, "")  # Spark redacts a job's property only if a setting has the same name
    return settings | {name: f"{given.get(name, '')} {LOCALE}".strip() for name in _JAVA_OPTIONS}


def _begin_with_an_executor(settings: dict[str, str]) -> None:
    if settings.get(f"{DYNAMIC}.enabled", "").lower() != "true":
        return
    if settings.setdefault(FEWEST_EXECUTORS, "1") == "0":
        raise SettingError(FEWEST_EXECUTORS, "0", "needs 1 or more")


def differences(session: SparkSession) -> dict[str, tuple[str, str]]:
    """Pinned settings that this session lacks: name -> (needed, found). Legacy settings must be unset: ""."""
    found = {name: session.conf.get(name, "") or "" for name in PINNED}
    wrong = {name: (PINNED[name], value) for name, value in found.items() if value != PINNED[name]}
    return wrong | {name: ("", value) for name, value in session.conf.getAll.items() if name.startswith(LEGACY)}


def require_fitting(session: SparkSession) -> None:
    """Refuse a session in which an expression would mean something else. Raises SessionError."""
    wrong = {name: pair for name, pair in differences(session).items() if name in EXPRESSIONS or not pair[0]}
    if wrong:
        raise SessionError(wrong)


def _name(key: str) -> str:
    return key if key.startswith("spark.") else f"spark.{key}"


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
