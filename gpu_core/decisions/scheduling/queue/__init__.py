"""The queue: its order, its groups, its table, and how long a run may wait in it."""
