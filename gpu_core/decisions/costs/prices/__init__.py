"""Prices: what a run pays for an hour, and the prices that plans compare dollars with."""
