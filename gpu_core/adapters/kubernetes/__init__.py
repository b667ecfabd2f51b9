"""The Kubernetes API: plain JSON in and out, watches, and a lease."""

from gpu_core.adapters.kubernetes.api import KubernetesApi, KubernetesError
from gpu_core.adapters.kubernetes.reflector import Reflector

__all__ = ["KubernetesApi", "KubernetesError", "Reflector"]
