"""The environment variables of a run in a pod."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpu_core.decisions.kubernetes.manifests.launch import Launch
from gpu_core.decisions.kubernetes.manifests.merge import Manifest
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy
from gpu_core.decisions.requests.runs.run_context import NOTICE_FILE

RUN_DIR = "/var/run/prefect-gpu/run"
NOTICE_DIR = "/var/run/prefect-gpu/notice"
GANG_FILE = "gang"
"""In the same folder: not empty once all pods of the gang exist."""

# What the device plugin sets for a container with GPUs, or the CUDA library reads.
_DEVICE_VARIABLES = frozenset({"NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"})


def required_environment(launch: Launch) -> dict[str, str]:
    """The variables that the run needs: its identity, the place of its files, the meaning of
    SIGTERM."""
    notice_file = f"{NOTICE_DIR}/{NOTICE_FILE}"
    context = replace(launch.context, run_dir=RUN_DIR, devices=(), notice_file=notice_file)
    found = context.to_environment()
    if launch.is_flow:
        # The run is requeued: said here, because prefect-kubernetes guesses it otherwise.
        found["PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR"] = "reschedule"
    if not launch.shape.gpu_count:
        # A container that asks for no GPU may otherwise see all of the node's.
        found["NVIDIA_VISIBLE_DEVICES"] = "void"
    return found


def default_environment(launch: Launch, policy: KubernetesPolicy) -> dict[str, str]:
    """The variables that the template may override."""
    found = dict(launch.environment)
    if launch.is_flow:
        found["PREFECT_LOGGING_EXTRA_LOGGERS"] = "gpu_core"
    if launch.shape.gpu_count > 1 and not launch.is_gang:
        # torchrun's own default is one process, which leaves the other GPUs idle.
        found["PET_NPROC_PER_NODE"] = str(launch.shape.gpu_count)
    if policy.pod_security == "restricted" and policy.run_as_user is not None:
        # A user id that the image does not know has no home that it may write to.
        found["HOME"] = RUN_DIR
    return found


def without_unwanted(env: Mapping[str, str] | Sequence[Manifest], launch: Launch) -> list[Manifest]:
    """The template's variables without those that would break the run or give secrets away.

    - Which devices it sees: the kubelet appends the template's variables after the device
      plugin's, so `NVIDIA_VISIBLE_DEVICES=all` would show the run its neighbors' GPUs.
    - Prefect's settings and keys in a container job, which has no Prefect inside.
    """
    # Prefect has the variables of a template as a mapping until it prepares the run.
    listed = env_list(env) if isinstance(env, Mapping) else env
    return [item for item in listed if not _is_unwanted(str(item.get("name", "")), launch)]


def _is_unwanted(name: str, launch: Launch) -> bool:
    if name in _DEVICE_VARIABLES:
        return True
    return not launch.is_flow and name.startswith("PREFECT_")


def env_list(values: Mapping[str, str]) -> list[Manifest]:
    """Variables as a container has them."""
    return [{"name": name, "value": value} for name, value in values.items()]


def secret_env(launch: Launch, policy: KubernetesPolicy) -> list[Manifest]:
    """The variables that come from Secrets: the policy's, and in a flow Prefect's keys.

    A container job gets none of Prefect's, from any source.
    """
    secrets = {**launch.prefect_secrets, **policy.secrets}
    return [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": secret.name, "key": secret.key}}}
        for name, secret in secrets.items()
        if not _is_unwanted(name, launch)
    ]
