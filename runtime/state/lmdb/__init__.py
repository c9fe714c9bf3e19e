"""The default store backend: LMDB with checksums and long keys. Files are checked before they are mapped."""
