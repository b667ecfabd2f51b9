"""`prefect-gpu cost`: what runs cost, as a table and as a bill."""
