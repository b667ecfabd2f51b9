"""Objects that are written to Kubernetes and read from it, as plain data: no client, no cluster."""
