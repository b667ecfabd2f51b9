"""The worker against a real Prefect server, with real processes, seen from outside."""
