"""The options of `prefect-gpu gpus`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from gpu_core.cli.cost.arguments import DEFAULT_OPTIONS, LedgerOptions
from gpu_core.cli.shared.options import AsJson, duration, whole_number
from gpu_core.cli.shared.prefect_settings import load_prefect


def held(*, as_json: AsJson = False) -> int:
    """Show the GPUs of this machine that no run may use, and why.

    A gpu-process worker holds a GPU that is not well. It stays held until it passes a preflight or
    a person frees it, also over restarts of the worker and the machine.
    """
    load_prefect()
    from gpu_core.cli.gpus.command import show_held

    return show_held(as_json=as_json)


def free(gpu_id: Annotated[str, Parameter(help="The UUID of the GPU.")], /) -> int:
    """Let runs use a held GPU of this machine again."""
    load_prefect()
    from gpu_core.cli.gpus.command import free_gpu

    return free_gpu(gpu_id)


def preflight(
    gpu_id: Annotated[str, Parameter(help="The UUID of the GPU.")], /, *, as_json: AsJson = False
) -> int:
    """Check a held GPU of this machine, and let runs use it again if it passes.

    Reads errors, temperature and XID errors from the driver. With PyTorch or CuPy installed it also
    writes and compares most of the GPU's memory and multiplies matrices. Without, the GPU stays
    held: what was not checked has not passed.
    """
    load_prefect()
    from gpu_core.cli.gpus.preflight import run_preflight

    return run_preflight(gpu_id, as_json=as_json)


def history(
    *gpu_ids: Annotated[
        str,
        Parameter(help="The UUIDs of the GPUs to include. If not provided, all GPUs are included."),
    ],
    last: Annotated[
        int, duration("last", "Length of the time window to display. Defaults to 15m.")
    ] = 900,
    options: LedgerOptions = DEFAULT_OPTIONS,
    as_json: AsJson = False,
) -> int:
    """Show the activity of GPUs of process pools in each minute, from the ledger.

    The worker records each minute when it ends, and keeps it for the days of the policy's
    `telemetry.history_days`.
    """
    from gpu_core.cli.gpus.history import show_history

    return show_history(options.address(), gpu_ids, last, as_json=as_json)


def export(
    *,
    address: Annotated[
        str, Parameter(help="The host address to bind to. Use 0.0.0.0 to listen on all interfaces.")
    ] = "127.0.0.1",
    port: Annotated[
        int, whole_number("The port to bind to. Use 0 to select an available port.")
    ] = 9401,
    interval: Annotated[
        float,
        Parameter(help="The number of seconds between samples. Must be between 0.1 and 60."),
    ] = 1.0,
    pod_resources: Annotated[
        Path | None,
        Parameter(
            show_default=False,
            help="Path to the socket of the kubelet for pod resources: "
            "/var/lib/kubelet/pod-resources/kubelet.sock.",
        ),
    ] = None,
    node: Annotated[
        str,
        Parameter(
            show_default=False,
            help="The node's name in its cluster, for the label `node`: by it a worker finds the "
            "GPUs of its nodes.",
        ),
    ] = "",
) -> int:
    """Export metrics of this node's GPUs for Prometheus.

    Samples the GPUs through NVML until SIGTERM, and answers scrapes at /metrics. Without a driver
    it keeps running, and reports that once. A gpu-process worker exports the GPUs of its machine
    itself.
    """
    from gpu_core.cli.gpus.node_exporter import export as export_node
    from gpu_core.decisions.model.errors import InvalidInput

    if not 0 <= port <= 65535:
        raise InvalidInput("--port", "is no port", got=port, allowed="0 to 65535")
    if not 0.1 <= interval <= 60:
        raise InvalidInput(
            "--interval", "is too short or too long", got=interval, allowed="0.1 to 60 seconds"
        )
    return export_node(address, port, interval, pod_resources, node)
