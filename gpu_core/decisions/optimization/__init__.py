"""Changes that save money: proposals, answers from the ledger, experiments and sweeps."""
