"""`prefect-gpu anomalies`: which costs were unusual, and why."""
