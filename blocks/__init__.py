"""Prefect block types that you can configure in the Prefect UI."""
