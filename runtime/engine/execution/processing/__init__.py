"""The operator of the `process` step: a project's class processes one record after another, as in Kafka Streams."""
