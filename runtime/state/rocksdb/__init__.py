"""The store backend `rocksdb`: a log-structured tree, not transactional, with its position in a checkpoint file."""
