"""Leader election among the workers of a pool."""
