"""How records are stored in files, and how commits list them.

Only logs made of files and the log's own state use it.
"""
