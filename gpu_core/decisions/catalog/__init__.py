"""What can be rented or owned: GPU types, instance types, and what each costs where."""

from pathlib import Path

DEFAULT_CATALOG = Path("deployments/catalog.json")
"""Where a refreshed catalog is kept, next to the policy."""
