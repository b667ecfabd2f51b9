"""`prefect-gpu ledger`: verifies the log of decisions, and purges old records of it."""
