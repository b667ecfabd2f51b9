"""`prefect-gpu doctor`."""
