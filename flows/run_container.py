"""Runs an image and a command on a GPU pool, without Prefect in the container."""

from prefect import flow

from gpu_core.decisions.model.errors import InvalidInput


@flow(name="run-container")
def run_container() -> None:
    """Represents a container on a gpu-kubernetes pool.

    The pool runs the job variables `image` and `container_command` instead of this flow. The worker
    reports the states and the output of the container to Prefect.

    Raises:
        InvalidInput: The flow itself was run, because `container_command` is not set or the pool
            does not support containers.
    """
    raise InvalidInput(
        "container_command",
        "is required for running a container",
        remedy="please set it as a job variable on a work pool of type gpu-kubernetes, for "
        "example with --job-variable container_command=nvidia-smi",
    )
