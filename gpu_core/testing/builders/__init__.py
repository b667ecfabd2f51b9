"""Builders of values for tests: say what matters, the rest is ordinary."""
