"""Run an image and a command on a GPU pool, without Prefect inside."""

from prefect import flow

from gpu_core.decisions.model.errors import InvalidInput


@flow(name="run-container")
def run_container() -> None:
    """Stand for a container: a gpu-kubernetes pool runs the job variables `image` and
    `container_command`.

    Nothing of this flow runs then; the worker reports the container's states and output to Prefect.

    Raises:
        InvalidInput: The flow itself was run: no parameter says what the container runs, or the
            pool has no containers.
    """
    raise InvalidInput(
        "container_command",
        "is missing: there is no container to run",
        remedy="give it as a job variable, such as --job-variable container_command=nvidia-smi, "
        "on a work pool of type gpu-kubernetes",
    )
