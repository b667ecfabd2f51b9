"""Charges in FOCUS, and a provider's bill against the ledger, down to single runs."""
