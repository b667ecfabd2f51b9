"""Which change saves money: proposals, answers from the ledger, experiments and sweeps."""
