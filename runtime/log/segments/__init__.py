"""The storage of records in files, and how commits list them.

Only file-based logs and the log's state use it.
"""
