"""What all packages of the runtime share: kinds of records, columns and their types, keys, partitions."""
