"""What Python programs, the command line among them, do with a project: `Project`, and what it is composed of."""
