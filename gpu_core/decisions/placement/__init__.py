"""The placement of workloads on nodes and GPUs, among those that suit them and are free."""
