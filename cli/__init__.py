"""The command line. A module in `commands` holds one command, which only reads arguments and prints.

Importing this package, or a command in it, imports neither Spark nor the compiler, so `headwater --help` is fast. A
command imports what it needs when it runs.
"""
