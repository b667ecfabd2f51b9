"""Savings made and savings possible: spot, elasticity, commitments, cheaper GPU types."""
