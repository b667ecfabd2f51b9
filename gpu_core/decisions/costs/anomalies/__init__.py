"""Which costs are unusual, since when, and what made them so."""
