"""Nodes as Kubernetes has them: GPUs, health, labels and nodes to come."""
