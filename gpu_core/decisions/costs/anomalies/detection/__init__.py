"""Unusual costs: the rules, what they compare, and the judgement of a day."""
