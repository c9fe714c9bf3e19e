"""The command line: one file for each command, argument parsing and printing only.

Importing this package, or any command in it, imports neither Spark nor the compiler: what a command needs is imported
when it runs, so that `headwater --help` is there at once.
"""
