"""What a job needs: memory on each GPU with its arithmetic, GPUs, and time."""
