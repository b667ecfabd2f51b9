"""The rights of workers and runs in a cluster."""
