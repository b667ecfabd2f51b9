"""Spot strategies replayed on recorded availability."""
