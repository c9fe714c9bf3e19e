"""What all of the runtime speaks in: kinds of records, columns and their types, keys, partitions."""
