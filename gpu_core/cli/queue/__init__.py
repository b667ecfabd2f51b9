"""`prefect-gpu queue`: the runs that wait, and why."""
