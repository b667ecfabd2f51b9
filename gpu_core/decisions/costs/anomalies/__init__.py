"""Unusual costs, their beginnings and their causes."""
