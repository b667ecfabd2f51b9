"""Runs that an operator spreads over pods: Ray, Kubeflow Trainer and Spark on Kubernetes."""

from gpu_core.decisions.kubernetes.operators.custom_job import CustomJob, PodSet
from gpu_core.decisions.kubernetes.operators.dispatch import build_custom_job
from gpu_core.decisions.kubernetes.operators.status import custom_job_outcome, has_been_kept

__all__ = ["CustomJob", "PodSet", "build_custom_job", "custom_job_outcome", "has_been_kept"]
