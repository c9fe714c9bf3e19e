"""The commands, each in the module of its name: it reads arguments, and prints what comes of them."""
