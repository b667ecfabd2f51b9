"""Where workloads go: which nodes and GPUs, among those that suit them and are free."""
