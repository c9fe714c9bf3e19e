"""Topics in Kafka: the only package that knows its client, which the extra `headwater[kafka]` installs."""

from __future__ import annotations

from ...errors import HeadwaterError


class KafkaClientMissingError(HeadwaterError):
    """The client of Kafka cannot be imported."""

    def __init__(self, cause: ImportError) -> None:
        super().__init__(f"topics in Kafka need its client: {cause}", "pip install 'headwater[kafka]'")


try:
    import confluent_kafka as confluent_kafka
except ImportError as error:
    raise KafkaClientMissingError(error) from error
