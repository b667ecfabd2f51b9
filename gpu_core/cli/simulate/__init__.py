"""`prefect-gpu simulate`: a trace under several policies."""
