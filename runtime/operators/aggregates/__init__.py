"""The aggregate functions: each one's hidden state, how rows are added to it and taken out, and its result."""
