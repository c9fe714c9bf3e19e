"""The default store backend: LMDB, with checksums, long keys, and files that are checked before they are mapped."""
