"""Topics in Kafka: the only package that knows its client, which the extra `headwater[kafka]` installs."""
