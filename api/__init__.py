"""The Python API of a project: `Project` and its parts. The command line uses it too."""
