"""Errors of Kafka, each with its cause and a way out. None has a secret: settings of a client are never shown."""

from __future__ import annotations

import re
from collections.abc import Mapping

from confluent_kafka import KafkaError

from ...errors import HeadwaterError, UnavailableError

_PROFILE = "the `kafka:` of profiles.yml"
_COMMITTED = "everything that was committed is there"


class KafkaClusterError(HeadwaterError):
    """Base class of errors of a Kafka cluster. `servers`: its bootstrap servers. `code`: of librdkafka, if known."""

    def __init__(self, servers: str, what: str, hint: str | None = None, code: int | None = None) -> None:
        super().__init__(f"Kafka at {servers}: {what}", hint)
        self.servers = servers
        self.code = code


class KafkaSettingError(KafkaClusterError):
    """The client does not accept its settings."""

    def __init__(self, servers: str, cause: str) -> None:
        super().__init__(servers, f"the client does not take its settings: {cause}", f"correct them in {_PROFILE}")


class KafkaUnreachableError(KafkaClusterError, UnavailableError):
    """No broker answers in time. It may be over soon."""

    def __init__(self, servers: str, request: str, cause: str) -> None:
        super().__init__(
            servers,
            f"no broker answers: {request}: {cause}",
            f"look whether the brokers run and can be reached from here, or correct `bootstrap_servers` or "
            f"`security` in {_PROFILE}; then run again: {_COMMITTED}",
        )


class KafkaLoginError(KafkaClusterError):
    """The brokers do not accept the user or its password."""

    def __init__(self, servers: str, cause: str) -> None:
        settings = "`username`, `password` or `mechanism` under `security`"
        if "OAUTHBEARER" in cause:
            settings = "sasl.oauthbearer.client.id, sasl.oauthbearer.client.secret or "
            settings += "sasl.oauthbearer.token.endpoint.url under `client`"
        super().__init__(
            servers,
            f"the brokers do not accept the login: {cause}",
            f"correct {settings} in {_PROFILE}, or the environment variables that it names",
        )


class KafkaTlsError(KafkaClusterError):
    """The encrypted connection cannot be made."""

    def __init__(self, servers: str, cause: str) -> None:
        super().__init__(
            servers,
            f"TLS fails: {cause}",
            f"correct `ca`, `certificate` and `key`, or `protocol`, under `security` in {_PROFILE}, or use the host "
            "name of the brokers' certificate in `bootstrap_servers`",
        )


class KafkaDeniedError(KafkaClusterError):
    """An access control list denies a request."""

    def __init__(self, servers: str, request: str, cause: str) -> None:
        super().__init__(
            servers,
            f"{request} is not allowed: {cause}",
            "allow it: Read and Describe for topics that are read, Write, Read, Describe and DescribeConfigs for those "
            "that are written, Read for the consumer group, Write and Describe for the transactional id",
        )


class KafkaTopicMissingError(KafkaClusterError):
    """A topic, or a partition of it, does not exist. Brokers say the same of topics that this user may not see."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__(
            servers,
            f"there is no topic {topic}",
            "create it, correct `topic` under `kafka` of the topic, or allow this user to see it (Describe)",
        )
        self.topic = topic


class KafkaGroupInUseError(KafkaClusterError):
    """A consumer group has members, so its offsets move on. `group`, `members`: their number."""

    def __init__(self, servers: str, group: str, members: int) -> None:
        super().__init__(
            servers,
            f"consumer group {group} has {members:,} member{'' if members == 1 else 's'}: records behind its offsets "
            "would be processed twice",
            "stop the application that uses it, then run again",
        )
        self.group = group
        self.members = members


class KafkaTopicRecreatedError(KafkaClusterError):
    """A topic was deleted and created again: offsets count other records. `was`, `is_`: its ids."""

    def __init__(self, servers: str, topic: str, was: str, is_: str) -> None:
        super().__init__(
            servers,
            f"topic {topic} was deleted and created again (its id was {was}, and is {is_}): its offsets count other "
            "records than those that were read",
            "run again: what reads or writes it says how to go on; or give the new topic another name",
        )
        self.topic = topic
        self.was = was
        self.is_ = is_


class _OffsetsError(KafkaClusterError):
    """Offsets of a partition that cannot be read. `start`: where reading begins, `end`: exclusive."""

    def __init__(self, servers: str, topic: str, partition: int, start: int, end: int, what: str, hint: str) -> None:
        super().__init__(servers, f"{topic}, partition {partition}: {what}", hint)
        self.topic = topic
        self.partition = partition
        self.start = start
        self.end = end


class KafkaRecordsRemovedError(_OffsetsError):
    """Retention has removed records before they were read. `low`: the first offset that is left."""

    def __init__(self, servers: str, topic: str, partition: int, start: int, end: int, low: int) -> None:
        removed = min(low, end) - start
        super().__init__(
            servers,
            topic,
            partition,
            start,
            end,
            f"up to {removed:,} records with offsets {start} to {min(low, end) - 1} were removed before they were read "
            f"(the first offset is {low} now)",
            "read on from there, without them: headwater rewind; and raise `retention.ms` or `retention.bytes` of the "
            "topic, or run more often",
        )
        self.low = low


class KafkaOffsetBeyondEndError(_OffsetsError):
    """Reading begins beyond the end: Kafka has lost records (an unclean election), or the position is another topic's.

    `high`: the offset that the next record will have.
    """

    def __init__(self, servers: str, topic: str, partition: int, start: int, end: int, high: int) -> None:
        super().__init__(
            servers,
            topic,
            partition,
            start,
            end,
            f"reading goes on at offset {start}, and the partition ends at {high}: Kafka has lost records",
            "look for an unclean leader election; then read on from the end: headwater rewind",
        )
        self.high = high


class KafkaStalledError(_OffsetsError, UnavailableError):
    """No record and no end came in time, although there should be some. `position`: up to where all were read."""

    def __init__(
        self, servers: str, topic: str, partition: int, start: int, end: int, position: int, seconds: float, why: str
    ) -> None:
        super().__init__(
            servers,
            topic,
            partition,
            start,
            end,
            f"nothing came for {seconds:g} s; records with offsets {start} to {end - 1} are wanted, and all before "
            f"{position} were read: {why}",
            f"look at the brokers' logs; then run again: {_COMMITTED}",
        )
        self.position = position


class KafkaRecordTooLargeError(KafkaClusterError):
    """A record is larger than its topic allows. Nothing of its transaction was written.

    `row`: of the records to write, from 0. `size`: bytes in Kafka, without compression. `limits`: setting -> bytes.
    """

    def __init__(self, servers: str, topic: str, row: int, key: str, size: int, limits: Mapping[str, int]) -> None:
        known = " and ".join(f"{name} is {limit:,}" for name, limit in limits.items())
        super().__init__(
            servers,
            f"the record with key {key} has {size:,} bytes, too many for topic {topic}: {known}",
            "raise `max.message.bytes` of the topic (and `message.max.bytes` under `client` in the profile, if it is "
            "there), or write less",
        )
        self.topic = topic
        self.row = row
        self.size = size
        self.limits = dict(limits)


class KafkaProducerFencedError(KafkaClusterError):
    """Another producer has taken over this transactional id, or the brokers have ended a transaction that was too long.

    Nothing of the open transaction is visible. Whoever still has the right to write opens a new producer, which fences
    the other one.
    """

    def __init__(self, servers: str, name: str, cause: str) -> None:
        super().__init__(
            servers,
            f"the transactional id {name} belongs to another producer now: {cause}",
            f"stop the other process, or give each target another `prefix` in {_PROFILE}",
        )
        self.name = name


class KafkaTransactionError(KafkaClusterError):
    """A transaction could not be committed, also not in another try. Nothing of it is visible."""

    def __init__(self, servers: str, name: str, cause: str) -> None:
        super().__init__(servers, f"a transaction of {name} fails: {cause}", f"run again: {_COMMITTED}")
        self.name = name


_DENIED = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
_LOGIN = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.ILLEGAL_SASL_STATE,
    }
)
_TLS = frozenset({KafkaError._SSL})
_TLS_TEXT = re.compile(r"connecting to a PLAINTEXT broker listener|SSL alert number (?:4\d|51|70|71|116)\b")
"""Texts of errors that only their text tells from a lost connection. Alerts of RFC 8446: brokers do not accept the
client's certificate, or need one.
"""

PASSING = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError._NOENT,
    }
)
"""Codes of a broker that starts or changes its role, and of transactions that are about to end. The client repeats the
requests of producers and consumers itself, but not those of an admin client.
"""

_SILENT = (PASSING - {KafkaError.UNSTABLE_OFFSET_COMMIT}) | frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._MSG_TIMED_OUT,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.BROKER_NOT_AVAILABLE,
    }
)
MISSING = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    }
)
"""Codes of a missing topic or partition."""

FENCED = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.TRANSACTION_COORDINATOR_FENCED,
    }
)
"""Codes of a producer that another one has replaced, or whose transaction the brokers have ended."""


def refusal_of(servers: str, error: KafkaError) -> KafkaClusterError | None:
    """The error of a connection that no repetition makes: of the login or of TLS."""
    if error.code() in _LOGIN:
        return KafkaLoginError(servers, text_of(error))
    if error.code() in _TLS or _TLS_TEXT.search(error.str()):
        return KafkaTlsError(servers, text_of(error))
    return None


def error_of(
    servers: str, request: str, error: KafkaError, topic: str | None = None, heard: KafkaError | None = None
) -> KafkaClusterError:
    """The error for one of librdkafka. `request`: what was asked. `topic`: that it was about.

    `heard`: what the client has told of its connections meanwhile. It is the cause of a request without an answer.
    """
    if error.code() in _SILENT:
        refusal = None if heard is None else refusal_of(servers, heard)
        return refusal or KafkaUnreachableError(servers, request, text_of(heard or error))
    if error.code() in _DENIED:
        about = request if topic is None or topic in request else f"{request} ({topic})"
        return KafkaDeniedError(servers, about, text_of(error))
    if error.code() in MISSING and topic is not None:
        return KafkaTopicMissingError(servers, topic)
    refusal = refusal_of(servers, error)
    return refusal or KafkaClusterError(servers, f"{request}: {text_of(error)}", code=error.code())


def text_of(error: KafkaError) -> str:
    """The text of an error, without the addresses and times that differ from try to try."""
    text = re.sub(r" \(after \d+ms in state \w+(?:, \d+ identical error\(s\) suppressed)?\)", "", error.str())
    text = re.sub(r"^\S+?/(?:bootstrap|\d+): ", "", text)
    return text or error.name()
