"""MLflow's tracking server."""
