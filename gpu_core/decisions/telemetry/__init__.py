"""The activity of GPUs: samples, their summaries, and the health of a GPU."""
