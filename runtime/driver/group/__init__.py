"""The group of an application's clients: how they join, which tasks each has, and how tasks move between them."""
