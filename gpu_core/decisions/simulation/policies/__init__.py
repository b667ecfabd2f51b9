"""Policies side by side: their metrics in a replay, and the one that fits a workload."""
