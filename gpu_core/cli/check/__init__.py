"""`prefect-gpu check`."""
