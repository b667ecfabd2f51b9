"""Order, preemption and the planning cycle."""
