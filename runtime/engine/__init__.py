"""The only rooms that know Spark: sessions, placement, the epoch's job, and the loop that runs it."""
