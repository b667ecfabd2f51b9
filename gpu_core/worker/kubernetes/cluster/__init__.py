"""Reads the worker's cluster, and writes objects other than Jobs."""
