"""`prefect-gpu plan`: GPU type, capacity type and cost of a job."""
