"""Prefect's part of a run: its API after an outage, flows that are sent along, reads in batches."""
