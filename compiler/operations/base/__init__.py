"""The interfaces of steps and operations."""
