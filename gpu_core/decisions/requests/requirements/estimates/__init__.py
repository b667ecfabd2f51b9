"""Estimates for a job: memory with its arithmetic, GPUs, time, and whether it needs a GPU."""
