"""Which offering to take for a job: every one that could run it, with its time and cost."""
