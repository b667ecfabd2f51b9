"""What operators see of a worker: health, structured logs, a line for each cycle."""
