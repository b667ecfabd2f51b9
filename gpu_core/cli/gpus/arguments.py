"""The options of `prefect-gpu gpus`."""

from typing import Annotated

from cyclopts import Parameter

from gpu_core.cli.shared.options import AsJson
from gpu_core.cli.shared.prefect_settings import load_prefect


def held(*, as_json: AsJson = False) -> int:
    """Show the GPUs of this machine that no run may use, and why.

    A gpu-process worker holds a GPU that is not well. It stays held until a person frees it, also
    over restarts of the worker and the machine.
    """
    load_prefect()
    from gpu_core.cli.gpus.command import show_held

    return show_held(as_json=as_json)


def free(gpu_id: Annotated[str, Parameter(help="The GPU's UUID.")], /) -> int:
    """Let runs use a held GPU of this machine again."""
    load_prefect()
    from gpu_core.cli.gpus.command import free_gpu

    return free_gpu(gpu_id)
