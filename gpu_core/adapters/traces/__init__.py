"""Histories of jobs in the formats they are published in, read as one kind of value."""
