"""Runs that ran out of memory: how it shows, what it teaches, what the next attempt gets."""
