"""Schema registries: a client of Confluent's API, which others have too, with a cache for each process.

Confluent's own client is not used. It drops the reasons why a schema is not compatible, repeats failures of TLS as if
the registry were down, and reads certificates from a file, which each executor would need. And it installs six more
packages, for seven requests.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Any, TypeVar
from urllib.parse import quote

from ...errors import UnavailableError
from ..ir.topology import SchemaRegistry
from .serde import SerdeError

Answer = TypeVar("Answer")

PATIENCE = 10.0
"""The seconds for which a request is repeated while no registry answers, so that short outages end no run."""

_TIMEOUT, _PAUSE = 5.0, 0.2
_PROFILE = "`registry` of the cluster in profiles.yml"
_TYPE = "application/vnd.schemaregistry.v1+json"

_MISSING = frozenset({40401, 40402, 40403})
"""Codes of a missing subject, version or schema. Other errors with the status 404 are of wrong addresses."""


class SchemaType(StrEnum):
    """The language of a schema, as registries name it."""

    AVRO = "AVRO"
    PROTOBUF = "PROTOBUF"
    JSON = "JSON"


@dataclass(frozen=True)
class SchemaReference:
    """Another schema that a schema imports as `name`: a version of a subject."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True)
class Schema:
    """The text of a schema, with those that it imports."""

    type: SchemaType
    text: str
    references: tuple[SchemaReference, ...] = ()


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema with its number in a registry, and its version among those of a subject."""

    id: int
    schema: Schema
    subject: str
    version: int


class RegistryError(SerdeError):
    """Base class of errors of a schema registry. None has a secret."""

    def __init__(self, url: str, what: str, hint: str | None = None) -> None:
        super().__init__(f"the schema registry at {url}: {what}", hint)
        self.url = url


class RegistryUnreachableError(RegistryError, UnavailableError):
    """No registry answers in time. It may be over soon."""

    def __init__(self, url: str, cause: str) -> None:
        hint = f"look whether it runs and can be reached from here, or correct `url` under {_PROFILE}; then run again"
        super().__init__(url, f"does not answer: {cause}", hint)


class RegistryLoginError(RegistryError):
    """The registry does not accept the user, or does not allow the request."""

    def __init__(self, url: str, status: int, request: str) -> None:
        what = "does not accept the login" if status == 401 else f"{request} is not allowed"
        hint = f"correct `username` and `password` under {_PROFILE}, or the environment variables that they name"
        super().__init__(url, f"{what} (status {status})", hint)


class RegistryTlsError(RegistryError):
    """The encrypted connection cannot be made."""

    def __init__(self, url: str, cause: str) -> None:
        super().__init__(url, f"TLS fails: {cause}", f"correct `ca` or `url` under {_PROFILE}")


class _NotFoundError(Exception):
    """A subject, a version or a schema does not exist."""


_MISSING_SECONDS = 10.0
"""How long a registry is not asked again for a number that it does not have. A topic of another format may have many
records that begin with the byte 0 and such a number."""

_MOST_MISSING = 10_000
"""Numbers that are remembered as missing."""


class Registry:
    """Schemas by number and by subject. Raises RegistryError."""

    def __init__(self, settings: SchemaRegistry) -> None:
        self._settings = settings
        self._urls = [url.strip().rstrip("/") for url in settings.url.split(",")]
        self._by_id: dict[int, Schema] = {}
        self._missing: dict[int, float] = {}

    @property
    def url(self) -> str:
        """The address, for messages."""
        return self._settings.url

    def schema(self, number: int) -> Schema | None:
        """The schema with a number, as payloads have it; None if there is none."""
        if number not in self._by_id:
            now = time.monotonic()
            if self._missing.get(number, -_MISSING_SECONDS) > now - _MISSING_SECONDS:
                return None
            try:
                self._by_id[number] = self._ask("GET", f"schemas/ids/{number}", _schema)
            except _NotFoundError:
                if len(self._missing) >= _MOST_MISSING:
                    self._missing.clear()
                self._missing[number] = now
                return None
        return self._by_id[number]

    def latest(self, subject: str) -> RegisteredSchema | None:
        """The latest version of a subject; None if the subject does not exist."""
        return self._version(subject, "latest")

    def imported(self, schema: Schema) -> Mapping[str, str]:
        """Name -> text of all schemas that a schema imports, each behind those that it imports itself."""
        found: dict[str, str] = {}
        self._import(schema, found)
        return found

    def number_of(self, subject: str, schema: Schema) -> int | None:
        """The number of a schema that a subject has; None if it does not have it."""
        try:
            return self._ask("POST", f"subjects/{_path(subject)}", _number, _body(schema))
        except _NotFoundError:
            return None

    def incompatibilities(self, subject: str, schema: Schema) -> Sequence[str]:
        """Why a schema cannot be the next version of a subject, by the subject's rule; empty if it can."""
        try:
            path = f"compatibility/subjects/{_path(subject)}/versions?verbose=true"
            return self._ask("POST", path, _reasons, _body(schema))
        except _NotFoundError:
            return ()

    def register(self, subject: str, schema: Schema) -> int:
        """Make a schema the next version of a subject, if it is none yet. Its number."""
        return self._ask("POST", f"subjects/{_path(subject)}/versions", _number, _body(schema))

    def _version(self, subject: str, version: int | str) -> RegisteredSchema | None:
        try:
            return self._ask("GET", f"subjects/{_path(subject)}/versions/{version}", _registered)
        except _NotFoundError:
            return None

    def _import(self, schema: Schema, found: dict[str, str]) -> None:
        for reference in schema.references:
            if reference.name in found:
                continue
            version = self._version(reference.subject, reference.version)
            if version is None:
                missing = f"version {reference.version} of subject {reference.subject}, which a schema imports"
                raise RegistryError(self.url, f"does not have {missing}", "register it again")
            self._import(version.schema, found)
            found[reference.name] = version.schema.text

    # Requests.

    def _ask(
        self, method: str, path: str, read: Callable[[Any], Answer], body: Mapping[str, Any] | None = None
    ) -> Answer:
        """The answer to a request. `read`: what it says, from its JSON. Raises _NotFoundError, RegistryError."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return self._ask_each(method, path, read, body)
            except RegistryUnreachableError:
                if time.monotonic() >= until:
                    raise
            time.sleep(_PAUSE)

    def _ask_each(
        self, method: str, path: str, read: Callable[[Any], Answer], body: Mapping[str, Any] | None
    ) -> Answer:
        """The answer of the first address that gives one."""
        for url in self._urls[:-1]:
            try:
                return self._ask_one(url, method, path, read, body)
            except RegistryUnreachableError:
                continue
        return self._ask_one(self._urls[-1], method, path, read, body)

    def _ask_one(
        self, url: str, method: str, path: str, read: Callable[[Any], Answer], body: Mapping[str, Any] | None
    ) -> Answer:
        try:
            request = urllib.request.Request(f"{url}/{path}", None if body is None else json.dumps(body).encode())
            request.method = method
            request.add_header("Accept", f"{_TYPE}, application/json")
            request.add_header("Content-Type", _TYPE)
            if self._settings.username:
                user = f"{self._settings.username}:{self._settings.password}".encode()
                # A server that redirects a request does not get the password of this one.
                request.add_unredirected_header("Authorization", f"Basic {base64.b64encode(user).decode()}")
            with urllib.request.urlopen(request, timeout=_TIMEOUT, context=self._tls) as answer:
                return read(json.load(answer))
        except urllib.error.HTTPError as error:
            raise _error_of(url, f"{method} {path.partition('?')[0]}", error) from None
        except (OSError, http.client.HTTPException) as error:
            cause = getattr(error, "reason", None) or error
            if isinstance(cause, ssl.SSLError):
                raise RegistryTlsError(url, getattr(cause, "verify_message", None) or cause.reason) from None
            if isinstance(error, http.client.InvalidURL):
                raise RegistryError(url, "the address is no URL", f"correct `url` under {_PROFILE}") from None
            raise RegistryUnreachableError(url, getattr(cause, "strerror", None) or str(cause)) from None
        except (ValueError, TypeError, KeyError, AttributeError):
            what = f"the answer to {method} {path} is not that of a schema registry"
            raise RegistryError(url, what, f"correct `url` under {_PROFILE}") from None

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cadata=self._settings.ca or None)
        except ssl.SSLError as error:
            raise RegistryTlsError(self.url, f"`ca` is no certificate ({error.reason})") from None


def _error_of(url: str, request: str, error: urllib.error.HTTPError) -> Exception:
    """The error for a status that is no success."""
    try:
        said = json.loads(error.read() or b"{}")
        message = str(said.get("message") or error.reason)
    except (ValueError, OSError, http.client.HTTPException, AttributeError):
        said, message = {}, str(error.reason)
    if error.code in (401, 403):
        return RegistryLoginError(url, error.code, request)
    if said.get("error_code") in _MISSING:
        return _NotFoundError()
    if error.code == 429 or error.code >= 500:
        return RegistryUnreachableError(url, f"status {error.code}: {message}")
    hint = f"correct `url` under {_PROFILE}" if error.code == 404 else None
    return RegistryError(url, f"{request} fails with status {error.code}: {message}", hint)


def _path(subject: str) -> str:
    return quote(subject, safe="")


def _schema(found: Mapping[str, Any]) -> Schema:
    references = (
        SchemaReference(each["name"], each["subject"], int(each["version"])) for each in found.get("references") or ()
    )
    return Schema(SchemaType(found.get("schemaType") or SchemaType.AVRO), found["schema"], tuple(references))


def _registered(found: Mapping[str, Any]) -> RegisteredSchema:
    return RegisteredSchema(_number(found), _schema(found), found["subject"], int(found["version"]))


def _number(found: Mapping[str, Any]) -> int:
    return int(found["id"])


def _reasons(found: Mapping[str, Any]) -> list[str]:
    """Why a schema is not compatible; empty if it is."""
    if found["is_compatible"]:
        return []
    # Apicurio has one `reason`.
    return [str(each) for each in found.get("messages") or [found.get("reason") or "the registry gives no reason"]]


def _body(schema: Schema) -> dict[str, Any]:
    references = [{"name": each.name, "subject": each.subject, "version": each.version} for each in schema.references]
    return {
        "schema": schema.text,
        "schemaType": schema.type.value,
        **({"references": references} if references else {}),
    }


def registry_of(settings: SchemaRegistry) -> Registry:
    """The registry of a cluster: one for each process, as it keeps schemas."""
    return _opened(os.getpid(), settings)


@lru_cache(maxsize=16)
def _opened(_: int, settings: SchemaRegistry) -> Registry:
    return Registry(settings)
