"""Costs in MLflow: its address, its saved views, ratios, and what it does not have yet."""
