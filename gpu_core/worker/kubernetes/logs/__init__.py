"""Writes the output of containers to the logs of their runs."""
