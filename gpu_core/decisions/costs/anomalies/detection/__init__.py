"""Unusual costs: the rules, what they compare, and the judgment of a day."""
