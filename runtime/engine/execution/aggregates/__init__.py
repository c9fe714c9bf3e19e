"""The aggregate functions: the hidden state of each, how rows are added and removed, and the result."""
