"""The times of saves, the contents of checkpoints, and the choice of the one to restore."""
