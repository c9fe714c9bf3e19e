"""Keeps an application's part of the log small while it runs, beside the epochs."""
