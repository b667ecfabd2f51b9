"""The requirements of a job: memory on each GPU with its arithmetic, GPUs, and time."""
