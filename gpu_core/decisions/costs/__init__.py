"""Costs of runs and machines, unusual costs, and possible savings."""
