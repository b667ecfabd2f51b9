"""Spark: a SparkApplication of the Spark operator 2.x (`sparkoperator.k8s.io/v1beta2`)."""

from collections.abc import Sequence
from pathlib import PurePosixPath

from gpu_core.decisions.kubernetes.manifests.merge import Manifest
from gpu_core.decisions.kubernetes.operators.custom_job import (
    CustomJob,
    PodSet,
    Request,
    head_pod,
    member_pod,
    metadata_of,
)
from gpu_core.decisions.kubernetes.variables.quantities import cpu_milli, format_cpu, memory_mib
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.workload import Shape

_TYPES = {".py": "Python", ".R": "R", ".jar": "Scala"}

# The part of a pod's memory that is the JVM's heap. The rest is for Python and the GPU's pinned
# buffers; Spark's own default for Python is 1 / 1.4 (spark.kubernetes.memoryOverheadFactor 0.4).
_HEAP_PERCENT = 71

_DRIVER, _EXECUTOR = "spark-kubernetes-driver", "spark-kubernetes-executor"


def build_spark_application(request: Request) -> CustomJob:
    """A driver without GPUs and an executor for each GPU, as RAPIDS asks for.

    The pods come as Spark's pod templates, so that no webhook has to write them.
    """
    launch, policy = request.launch, request.policy
    gpus = launch.shape.gpu_count * launch.shape.nodes
    executors = max(1, gpus)
    per_node = max(1, launch.shape.gpu_count)
    main_class, file, arguments = _application(request.command)
    executor = _named(member_pod(request, is_alone=False), _EXECUTOR)
    driver = _named(head_pod(request), _DRIVER)
    spec: Manifest = {
        "type": _TYPES[PurePosixPath(file).suffix],
        "mode": "cluster",
        "sparkVersion": policy.operators.spark_version,
        "mainApplicationFile": file,
        "arguments": list(arguments),
        "restartPolicy": {"type": "Never"},
        "timeToLiveSeconds": policy.kept_after_end_s,
        "suspend": request.is_suspended,
        "driver": _role(driver, 1),
        "executor": {**_role(executor, per_node), "instances": executors},
    }
    if gpus:
        spec["sparkConf"] = _gpu_conf(request, cores=spec["executor"]["cores"])
    image = executor["spec"]["containers"][0].get("image")
    if image is not None:
        spec["image"] = image
    if main_class is not None:
        spec["mainClass"] = main_class
    manifest: Manifest = {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "SparkApplication",
        "metadata": metadata_of(request),
        "spec": spec,
    }
    return CustomJob(
        manifest=manifest,
        pod_sets=(
            PodSet(name="driver", count=1, gpus_per_pod=0),
            PodSet(name="executor", count=executors, gpus_per_pod=min(1, gpus)),
        ),
    )


def require_whole_gpus(shape: Shape) -> None:
    """Refuse parts of GPUs.

    Raises:
        InvalidInput: The shape wants parts.
    """
    if not shape.is_whole:
        raise InvalidInput(
            "framework",
            "'spark' requires whole GPUs",
            remedy="remove gpu_fraction and mig_profile",
        )


def _gpu_conf(request: Request, cores: int) -> dict[str, str]:
    require_whole_gpus(request.launch.shape)
    return {
        "spark.executor.resource.gpu.amount": "1",
        "spark.executor.resource.gpu.vendor": "nvidia.com",
        "spark.executor.resource.gpu.discoveryScript": request.policy.operators.spark_gpu_script,
        # All tasks of an executor share its GPU.
        "spark.task.resource.gpu.amount": f"{1 / cores:.4g}",
    }


def _role(pod: Manifest, pods_per_node: int) -> Manifest:
    """Cores and memory of one pod, in Spark's words; the template keeps the rest."""
    container = pod["spec"]["containers"][0]
    resources = container.pop("resources")
    requests, limit = resources["requests"], resources["limits"].get("cpu")
    cpu = cpu_milli(requests["cpu"], "cpu") // pods_per_node
    memory = memory_mib(requests["memory"], "memory") // pods_per_node
    heap = memory * _HEAP_PERCENT // 100
    cores = {"cores": max(1, cpu // 1000), "coreRequest": format_cpu(cpu)}
    if limit is not None:
        cores["coreLimit"] = format_cpu(cpu_milli(limit, "cpu") // pods_per_node)
    return {
        **cores,
        "memory": f"{heap}m",
        "memoryOverhead": f"{memory - heap}m",
        "template": pod,
    }


def _named(pod: Manifest, container_name: str) -> Manifest:
    pod["spec"]["containers"][0]["name"] = container_name
    return pod


def _application(command: Sequence[str]) -> tuple[str | None, str, tuple[str, ...]]:
    """The main class, the file and its arguments, as `spark-submit` takes them."""
    main_class = None
    words = tuple(command)
    if len(words) > 1 and words[0] == "--class":
        main_class, words = words[1], words[2:]
    if not words or PurePosixPath(words[0]).suffix not in _TYPES:
        raise InvalidInput(
            "container_command",
            "does not begin with a Spark application",
            got=" ".join(command),
            allowed="a .py, .R or .jar file with its arguments, and --class NAME before a .jar",
        )
    return main_class, words[0], words[1:]
