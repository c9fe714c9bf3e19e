"""The state directory of a client: whose it is, which stores lie there, and with which log they were made."""
