"""The choice of an offering for a job: every one that could run it, with its time and cost."""
