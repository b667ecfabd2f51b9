"""GPU types and instance types that can be rented or owned, with their prices by place."""

from pathlib import Path

DEFAULT_CATALOG = Path("deployments/catalog.json")
"""The file of a refreshed catalog, next to the policy."""
