"""Nodes to add or to remove, and the planned nodes that a plan may use."""
