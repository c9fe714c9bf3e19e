"""Places tasks on clients: asks the assignor, and carries out its answer."""
