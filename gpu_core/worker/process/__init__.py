"""GPUs of one machine, runs as local processes."""
