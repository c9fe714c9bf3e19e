"""Settings of Spark and librdkafka that correct results depend on. The compiler checks profiles for them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

LOCALITY_WAIT = "1h"
"""How long Spark waits for a task's own client. The driver detects lost clients by watching executors, not by this."""

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
"""Settings that change the meaning of expressions: how they are parsed, and what functions return.

With `variable.substitute`, Spark would replace environment variables and settings in an expression (`'${env:HOME}'`)
before it parses it. So the value of a setting would become SQL.
"""

DYNAMIC = "spark.dynamicAllocation"
"""The prefix of dynamic allocation, with which Spark requests more executors while tasks wait for cores."""

FEWEST_EXECUTORS = f"{DYNAMIC}.minExecutors"
"""The minimum number of executors. With 0 a run would never start, because tasks are assigned to live executors."""

_NEVER = f"{2**31 - 1}s"
"""The maximum timeout of idle executors, which means never: Spark's default for executors with cached data."""

LEGACY = "spark.sql.legacy."
"""The prefix of settings for the behaviour of older versions of Spark."""

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

`maxFailures`: one failure fails the Spark job. The driver's loop decides what runs again. A retry by Spark would write
under the same attempt. `killOnFatalError`: a value that exhausts the stack or memory of the JVM fails its task, not the
JVM, so that the failing record can be identified. Dynamic allocation may add executors, but not remove idle ones: they
own stores, so a pause in the input would cause a restore. Timeouts of executors stay Spark's own. The driver's loop
treats an executor that is silent for longer than the profile's `deadline` as lost. Spark ends it only after two
minutes.
"""


PINNED_OF_KAFKA = frozenset(
    {
        "acks",
        "auto.offset.reset",
        "bootstrap.servers",
        "delivery.report.only.error",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.gapless.guarantee",
        "enable.idempotence",
        "enable.partition.eof",
        "group.id",
        "group.instance.id",
        "isolation.level",
        "metadata.broker.list",
        "partitioner",
        "request.required.acks",
        "transactional.id",
    }
)
"""Settings of librdkafka that exactly-once processing depends on, or that have a key of their own in a profile."""


@dataclass(frozen=True)
class SettingsOfKafka:
    """All settings of librdkafka, in one version of it."""

    version: str
    names: Sequence[str]


@cache
def settings_of_kafka() -> SettingsOfKafka:
    """Read from `librdkafka.json`, which `tests/kafka/test_settings.py` makes: the client itself prints them."""
    return SettingsOfKafka(**json.loads(Path(__file__).with_name("librdkafka.json").read_text("utf-8")))


def setting_name(key: str) -> str:
    """The full name of a key in the `spark:` section of a profile, where `spark.` is optional."""
    return key if key.startswith("spark.") else f"spark.{key}"


def setting_text(value: Any) -> str:
    """A value of the `spark:` section as text for Spark."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def refused_settings(given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The settings of a profile that Headwater rejects: (name, requirement). `given`: full name -> value."""
    for name, value in given.items():
        if name in PINNED and value != PINNED[name]:
            yield name, f"needs {PINNED[name]!r}"
        elif name.startswith(LEGACY):
            yield name, "needs Spark as it is"
    if given.get(f"{DYNAMIC}.enabled", "").lower() == "true" and given.get(FEWEST_EXECUTORS) == "0":
        yield FEWEST_EXECUTORS, "needs 1 or more"
