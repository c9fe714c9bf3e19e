"""Assigns tasks to clients: calls the assignor, and applies its assignment."""
