"""GPU types and instance types that can be rented or owned, with their prices by place."""

from pathlib import Path

DEFAULT_CATALOG = Path("deployments/catalog.json")
"""Where a refreshed catalog is kept, next to the policy."""
