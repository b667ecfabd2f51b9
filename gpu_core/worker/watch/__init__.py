"""What changes while a worker runs: budgets, outages, the policy, the pool and spot capacity."""
