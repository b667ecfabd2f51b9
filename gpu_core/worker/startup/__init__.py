"""Checks and connections that a worker opens before its first cycle and closes after its last."""
