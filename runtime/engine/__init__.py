"""Python stages of the epoch's job, and the pipe through which rows go from one stage to the next."""
