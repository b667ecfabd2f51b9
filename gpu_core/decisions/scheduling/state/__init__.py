"""The state of the scheduler: allocations, the quota that is left, and pending releases."""
