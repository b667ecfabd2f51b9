"""The choice of the custom object that runs an attempt."""

from collections.abc import Callable, Mapping
from typing import Any

from gpu_core.decisions.kubernetes.manifests.launch import Launch
from gpu_core.decisions.kubernetes.operators.custom_job import (
    CustomJob,
    Request,
    custom_job_request,
)
from gpu_core.decisions.kubernetes.operators.kubeflow import build_train_job
from gpu_core.decisions.kubernetes.operators.ray import build_ray_job
from gpu_core.decisions.kubernetes.operators.spark import build_spark_application
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy

_BUILDERS: Mapping[str, Callable[[Request], CustomJob]] = {
    "ray": build_ray_job,
    "kubeflow": build_train_job,
    "spark": build_spark_application,
}


def build_custom_job(
    template: Mapping[str, Any],
    launch: Launch,
    policy: KubernetesPolicy,
    *,
    is_suspended: bool = False,
) -> CustomJob:
    """The object that runs this attempt under its framework's operator.

    Args:
        template: The pool's job manifest as Prefect rendered it; its pod becomes the framework's.
        policy: The policy's section `kubernetes`.
        is_suspended: Made, and not started: no pod until a person sets `suspend` to false.

    Raises:
        InvalidInput: The framework has no operator, or the run asks for what it cannot have.
    """
    builder = _BUILDERS.get(launch.pod.framework)
    if builder is None:
        raise InvalidInput(
            "framework",
            "has no operator",
            got=launch.pod.framework,
            allowed=", ".join(_BUILDERS),
        )
    return builder(custom_job_request(template, launch, policy, is_suspended=is_suspended))
