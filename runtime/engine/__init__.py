"""Python stages of an epoch's job, and the pipe that carries rows from one stage to the next."""
