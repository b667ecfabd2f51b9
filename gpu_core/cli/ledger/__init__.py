"""`prefect-gpu ledger`: is the ledger as it was written?"""
