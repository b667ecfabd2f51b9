"""The options of `prefect-gpu gpus`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from gpu_core.cli.cost.arguments import DEFAULT_OPTIONS, LedgerOptions
from gpu_core.cli.shared.options import AsJson, duration, whole_number
from gpu_core.cli.shared.prefect_settings import load_prefect


def held(*, as_json: AsJson = False) -> int:
    """List the held GPUs of this machine.

    Unhealthy GPUs are held by the gpu-process worker to prevent flow runs from using them. A GPU
    remains held, even if the worker or the machine is restarted, until it passes a preflight check
    or is released with `prefect-gpu gpus free`.
    """
    load_prefect()
    from gpu_core.cli.gpus.command import show_held

    return show_held(as_json=as_json)


def free(gpu_id: Annotated[str, Parameter(help="The UUID of the GPU.")], /) -> int:
    """Release a held GPU, allowing flow runs to use it again."""
    load_prefect()
    from gpu_core.cli.gpus.command import free_gpu

    return free_gpu(gpu_id)


def preflight(
    gpu_id: Annotated[str, Parameter(help="The UUID of the GPU.")], /, *, as_json: AsJson = False
) -> int:
    """Run a preflight check on a held GPU and release it if the check passes.

    Checks the driver for memory errors, XID errors and the GPU temperature. If PyTorch or CuPy is
    installed, most of the GPU memory is also tested, along with matrix multiplication. Otherwise,
    these tests are skipped and the GPU remains held.
    """
    load_prefect()
    from gpu_core.cli.gpus.preflight import run_preflight

    return run_preflight(gpu_id, as_json=as_json)


def history(
    *gpu_ids: Annotated[
        str,
        Parameter(
            help="The UUIDs of the GPUs to include. If not provided, all GPUs will be included."
        ),
    ],
    last: Annotated[
        int, duration("last", "How far back to show GPU activity. Defaults to 15m.")
    ] = 900,
    options: LedgerOptions = DEFAULT_OPTIONS,
    as_json: AsJson = False,
) -> int:
    """Show GPU utilization over time for process pools.

    GPU activity is recorded in the ledger every minute by the worker and retained for the number of
    days specified by `telemetry.history_days` in the policy.
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
            help="Path to the kubelet's pod resources socket (e.g. "
            "/var/lib/kubelet/pod-resources/kubelet.sock).",
        ),
    ] = None,
    node: Annotated[
        str,
        Parameter(
            show_default=False,
            help="The name of the Kubernetes node, used as the value of the `node` label. This "
            "is required for the worker to associate GPU metrics with nodes.",
        ),
    ] = "",
) -> int:
    """Start a Prometheus exporter for the GPUs of this node.

    Collects GPU metrics with NVML and serves them at /metrics until the process is terminated. If
    no driver is found, a warning is logged and the exporter continues running. This command is not
    required on machines with a gpu-process worker, which exports its own GPU metrics.
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
