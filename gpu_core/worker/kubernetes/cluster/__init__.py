"""What a worker knows of its cluster, and what it writes besides Jobs."""
