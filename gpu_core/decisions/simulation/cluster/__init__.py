"""A history of jobs, replayed on a virtual cluster by the planner of the worker."""
