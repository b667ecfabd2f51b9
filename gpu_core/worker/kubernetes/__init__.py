"""GPUs of a Kubernetes cluster, runs as Jobs."""
