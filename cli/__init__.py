"""The command line. Each command has one module in `commands`, which only reads arguments and prints.

Importing this package, or any command in it, imports neither Spark nor the compiler, so that `headwater --help` answers
at once. A command imports what it needs when it runs.
"""
