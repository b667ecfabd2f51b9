"""Prefect's API."""
