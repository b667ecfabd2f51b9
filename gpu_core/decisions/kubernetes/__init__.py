"""What we write to Kubernetes and what we read from it, as plain data: no client, no cluster."""
