"""When a run saves, what a checkpoint holds, and which one it restores."""
