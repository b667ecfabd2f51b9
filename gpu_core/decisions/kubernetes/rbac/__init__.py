"""What workers and runs may do in a cluster."""
