"""GPU scheduling for Prefect: decisions, adapters, runtime, worker, command line."""
