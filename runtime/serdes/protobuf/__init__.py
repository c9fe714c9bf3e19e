"""The serde `protobuf`: payloads are messages of a schema in the registry."""
