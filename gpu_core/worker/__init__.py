"""The Prefect workers: observe, plan, apply.

Prefect imports this module when it looks for worker types, so it must stay quick to import.
"""

from gpu_core.worker.kubernetes.worker import GpuKubernetesWorker
from gpu_core.worker.process.worker import GpuProcessWorker

WORKERS = {worker.type: worker for worker in (GpuProcessWorker, GpuKubernetesWorker)}
"""The worker types, by the name that Prefect knows them by."""

__all__ = ["WORKERS", "GpuKubernetesWorker", "GpuProcessWorker"]
