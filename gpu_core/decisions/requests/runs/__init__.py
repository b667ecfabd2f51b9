"""Runs before they start: their workload, tags, permissions, and what they know about themselves."""
