"""The GPUs of this machine, and which of them a run may use."""
