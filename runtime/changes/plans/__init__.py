"""Plans: what the next run of a project would do, made of the changes of its applications."""
