"""Runs that ran out of memory: how that shows, what to learn from it, and what the next attempt gets."""
