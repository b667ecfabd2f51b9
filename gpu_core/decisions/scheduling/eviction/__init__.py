"""The running workloads that lose their place to others, and the cost of that."""
