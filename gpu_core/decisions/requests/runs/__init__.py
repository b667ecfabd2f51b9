"""Runs before they start: workload, tags, permissions, and what they know of themselves."""
