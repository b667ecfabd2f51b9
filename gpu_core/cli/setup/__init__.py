"""`prefect-gpu setup`."""
