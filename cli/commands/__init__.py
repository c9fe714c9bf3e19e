"""The commands: module `x` defines `headwater x`, which reads arguments and prints results."""
