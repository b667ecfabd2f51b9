"""Machines: when each was there, what it cost, and which part of that was idle."""
