"""Prefect's objects: the pool, its blocks, its status and its API's address."""
