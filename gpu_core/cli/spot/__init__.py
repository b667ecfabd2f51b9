"""`prefect-gpu spot`: strategies replayed on recorded availability."""
