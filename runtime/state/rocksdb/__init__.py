"""The store backend `rocksdb`: an LSM tree, not transactional, with its position in a checkpoint file."""
