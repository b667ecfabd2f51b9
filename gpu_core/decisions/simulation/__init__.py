"""A virtual cluster: the planner of the worker, run over a history of jobs."""
