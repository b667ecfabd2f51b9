"""The Prefect workers: observe, plan, apply.

Prefect imports this module when it looks for worker types, so it must stay quick to import.
"""

from gpu_core.worker.kubernetes.worker import GpuKubernetesWorker
from gpu_core.worker.process.worker import GpuProcessWorker

__all__ = ["GpuKubernetesWorker", "GpuProcessWorker"]
