"""Spot or on-demand: which capacity a workload with a deadline should use now, and why."""
