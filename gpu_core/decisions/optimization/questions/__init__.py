"""What did it cost? Questions in words, answered from the ledger."""
