"""The requests of runs: what a run asks for, what it may ask for, and what it gets."""
