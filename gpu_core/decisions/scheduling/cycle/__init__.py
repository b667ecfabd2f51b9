"""The planning cycle: one decision for each pending workload, in the order of the queue."""
