"""Settings of Spark that results rest on: what the compiler checks in a profile, and a session is started with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

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


def setting_name(key: str) -> str:
    """The full name of a key of a profile's `spark:` section, which may leave out `spark.`."""
    return key if key.startswith("spark.") else f"spark.{key}"


def setting_text(value: Any) -> str:
    """A value of that section as Spark takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def refused_settings(given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Which of these settings nobody may give like that, each with what Headwater needs instead."""
    for name, value in given.items():
        if name in PINNED and value != PINNED[name]:
            yield name, f"needs {PINNED[name]!r}"
        elif name.startswith(LEGACY):
            yield name, "needs Spark as it is"
    if given.get(f"{DYNAMIC}.enabled", "").lower() == "true" and given.get(FEWEST_EXECUTORS) == "0":
        yield FEWEST_EXECUTORS, "needs 1 or more"
