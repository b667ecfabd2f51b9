"""Can checkpoints, costs and metrics be written where they should go?"""

from collections.abc import Iterator
from dataclasses import dataclass

from gpu_core.decisions.checks.doctor.clocks import ClockReading, clock_findings
from gpu_core.decisions.checks.doctor.finding import Finding, failed, ok, unknown, warning
from gpu_core.decisions.model.units import count, format_bytes

# A cycle of the worker reads and writes the ledger a few times, once a second at most.
_SLOW_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreProbe:
    """A small object that was written to the checkpoint store, read and deleted."""

    uri: str
    is_there: bool = True
    """False: its folder is made by the first run, and nothing was written."""
    took_s: float = 0.0
    """All three together."""
    free_bytes: int | None = None
    """The free space of the store; None: no bound is known."""
    first_save_bytes: int
    """The space that must be free for the first save of a run."""


def store_finding(probe: StoreProbe) -> Finding:
    """Can runs save their checkpoints?"""
    check = "store.checkpoints"
    if not probe.is_there:
        return ok(check, f"{probe.uri} does not exist yet and will be created by the first run")
    free = probe.free_bytes
    took = f"written, read and deleted in {probe.took_s:.2f} s"
    if free is not None and free < probe.first_save_bytes:
        return failed(
            check,
            f"{probe.uri} has {format_bytes(free)} of free space, but the first checkpoint "
            f"requires {format_bytes(probe.first_save_bytes)}",
            "please delete the checkpoints of finished runs or use a larger store",
        )
    room = "" if free is None else f", {format_bytes(free)} free"
    return ok(check, f"{probe.uri}: {took}{room}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerProbe:
    """The ledger's database, read without changing it."""

    address: str
    """Without its password."""
    version: str | None
    """Of its tables; None: it has none of them, or there is no database yet."""
    newest: str
    """The version that this prefect-gpu makes."""
    is_known: bool = True
    """Whether this prefect-gpu knows its version."""
    latency_s: float = 0.0
    """Of one query."""
    clock: ClockReading | None = None
    """Of the database server; None: it has this machine's."""


def ledger_findings(probe: LedgerProbe) -> Iterator[Finding]:
    """Can the ledger be read, and does this prefect-gpu fit its tables?"""
    check = "ledger.version"
    if probe.version is None:
        yield unknown(
            check,
            f"{probe.address} has not been initialized by a worker yet",
            "to create the tables, start the worker",
        )
        return
    if probe.version == probe.newest:
        yield ok(check, f"{probe.address}: schema version {probe.version} (latest)")
    elif probe.is_known:
        yield warning(
            check,
            f"{probe.address}: schema version {probe.version} is older than {probe.newest}",
            "to upgrade the schema, restart the worker with this version",
        )
    else:
        yield failed(
            check,
            f"{probe.address}: schema version {probe.version} is newer than {probe.newest}",
            "please upgrade prefect-gpu on this machine and in the worker",
        )
    text = f"query latency: {probe.latency_s * 1000:,.0f}ms"
    if probe.latency_s > _SLOW_S:
        yield warning("ledger.latency", text, "please run the database closer to the worker")
    else:
        yield ok("ledger.latency", text)
    if probe.clock is not None:
        yield from clock_findings([probe.clock])


@dataclass(frozen=True, slots=True, kw_only=True)
class MlflowProbe:
    """MLflow's answer to one harmless question."""

    address: str
    """Without its password."""
    status: int
    """The HTTP status."""
    has_credentials: bool
    """Whether a user or a token went with it."""
    took_s: float


_SUCCESS = range(200, 300)


def mlflow_finding(probe: MlflowProbe) -> Finding:
    """Is MLflow there, and does it take our credentials?"""
    check = "mlflow.access"
    who = "the credentials" if probe.has_credentials else "no credentials"
    if probe.status in _SUCCESS:
        return ok(check, f"{probe.address} answers in {probe.took_s:.2f} s with {who}")
    if probe.status in (401, 403):
        return failed(
            check,
            f"{probe.address} rejected a request with {who} (HTTP status {probe.status})",
            "please provide credentials with prefect-gpu setup --mlflow-uri or --mlflow-token-file",
        )
    return failed(
        check,
        f"{probe.address} returned an unexpected response (HTTP status {probe.status}) and may "
        "not be an MLflow server",
        "please check the address and update it with prefect-gpu setup --mlflow-uri",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenGpu:
    """A GPU of this machine."""

    name: str
    uuid: str
    memory_bytes: int | None
    is_mig: bool


def machine_findings(gpus: tuple[SeenGpu, ...], virtual_gpus: int, users: int) -> Iterator[Finding]:
    """The GPUs that a gpu-process worker of this machine has.

    Args:
        virtual_gpus: Those of the policy; 0: none.
        users: Processes that compute on the machine's GPUs now.
    """
    if virtual_gpus:
        real = f" ({count(len(gpus), 'physical GPU')} not used)" if gpus else ""
        yield ok(
            "gpus.virtual", f"{count(virtual_gpus, 'virtual GPU')} defined in the policy{real}"
        )
        return
    if not gpus:
        yield failed(
            "gpus.nvml",
            "No NVIDIA GPUs found on this machine",
            "please ensure that the driver is installed and that nvidia-smi lists the GPUs, or "
            "set `virtual_gpus` in the policy",
        )
        return
    details = [
        f"{gpu.name} {gpu.uuid}"
        + ("" if gpu.memory_bytes is None else f", {format_bytes(gpu.memory_bytes)}")
        for gpu in gpus
    ]
    yield ok("gpus.nvml", f"{count(len(gpus), 'GPU')}, used by {users} now", details)
    mig = sum(gpu.is_mig for gpu in gpus)
    if mig:
        yield warning(
            "gpus.mig",
            f"{count(mig, 'GPU')} in MIG mode, which is not supported by gpu-process workers",
            "please disable MIG mode with `nvidia-smi -mig 0` or use a gpu-kubernetes pool",
        )
