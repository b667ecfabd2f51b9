"""`prefect-gpu quickstart`: a server, a worker and runs on this machine."""
