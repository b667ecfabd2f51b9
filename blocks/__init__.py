"""Prefect Block types: what people configure in the Prefect UI."""
