"""Entry points of the deployments: read, decide with gpu_core, publish."""
