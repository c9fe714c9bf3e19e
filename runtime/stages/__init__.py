"""A Python stage of the epoch's job, and the pipe by which rows get from one stage to the next."""
