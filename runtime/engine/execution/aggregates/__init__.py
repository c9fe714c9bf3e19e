"""The aggregate functions: their hidden state, how rows are added and removed, and their results."""
