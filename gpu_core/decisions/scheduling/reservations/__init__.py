"""Capacity that is kept for later: reservations, nodes kept, and closures of the calendar."""
