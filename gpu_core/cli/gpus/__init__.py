"""`prefect-gpu gpus`: the GPUs of this machine that are held, and what they do."""
