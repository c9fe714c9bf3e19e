"""The tests of a project, and topologies that a test drives."""
