"""What a worker checks and opens before its first cycle, and closes after its last."""
