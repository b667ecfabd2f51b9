"""The status of Jobs and pods, and their ends."""
