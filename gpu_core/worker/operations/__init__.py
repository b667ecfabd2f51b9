"""The operator's view of a worker: health, structured logs, a line for each cycle."""
