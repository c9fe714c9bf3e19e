"""The operator of the `process` step: a project's class is given one record after another, as Kafka's are."""
