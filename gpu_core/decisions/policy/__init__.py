"""`policy.yaml`: one file for each section."""
