"""Questions in words about cost, answered from the ledger."""
