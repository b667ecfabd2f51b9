"""Reads the files of a project for `prefect-gpu setup` and `prefect-gpu check`."""
