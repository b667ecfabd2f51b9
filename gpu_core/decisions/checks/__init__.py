"""Prefect's pool, what is wrong with an installation, and with the files that people write."""
