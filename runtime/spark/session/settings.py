"""Settings of a Spark session: what a profile makes of them, and which a given session lacks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ....errors import HeadwaterError
from ...environment import LookedUp
from ...pinned_settings import (
    DYNAMIC,
    EXPRESSIONS,
    FEWEST_EXECUTORS,
    LEGACY,
    PINNED,
    refused_settings,
    setting_name,
    setting_text,
)
from ..executor_link import REQUEST_PROPERTY
from ..worker import PLAN_PROPERTY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULTS: Mapping[str, str] = {
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.artifact.isolation.enabled": "false",
    "spark.executorEnv.PYTHONSAFEPATH": "1",  # `python -m` imports from the current folder first: a project's `lmdb.py`
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

    def __init__(self, name: str, value: str, needed: str) -> None:
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
    given = {setting_name(key): setting_text(value) for key, value in profile.items() if value is not None}
    if "spark.remote" in given or given.get("spark.master", "").startswith("sc://"):
        raise ConnectError()
    for name, needed in refused_settings(given):
        raise SettingError(name, given[name], needed)
    local = given.get("spark.master", "local[2]").startswith("local")
    defaults = DEFAULTS if local else {k: v for k, v in DEFAULTS.items() if not k.startswith("spark.driver.")}
    settings = {"spark.master": "local[2]"} | dict(defaults) | given | dict(PINNED)
    if settings.get(f"{DYNAMIC}.enabled", "").lower() == "true":
        settings.setdefault(FEWEST_EXECUTORS, "1")
    secret = [*_OF_JOBS, *(setting_name(key) for key, value in profile.items() if isinstance(value, LookedUp))]
    settings[_REDACTED] = f"{given.get(_REDACTED, _SPARKS_SECRETS)}|^(?:{'|'.join(map(re.escape, secret))})$"
    settings |= dict.fromkeys(_OF_JOBS, "")  # Spark redacts a job's property only if a setting has the same name
    return settings | {name: f"{given.get(name, '')} {LOCALE}".strip() for name in _JAVA_OPTIONS}


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
