"""Watches what changes while a worker runs: budgets, outages, policy, pool and spot capacity."""
