"""What `prefect-gpu deploy` reads of a project."""
