"""Job variables of a Kubernetes pool."""
