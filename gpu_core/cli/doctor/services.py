"""Checks of the stores of a pool: checkpoints, ledger and MLflow, each in a thread."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from gpu_core.adapters.checkpoints.probe import probe_store
from gpu_core.adapters.checkpoints.store import StoreMisconfigured, StoreUnreachable
from gpu_core.adapters.ledger.errors import LedgerError
from gpu_core.adapters.ledger.inspection import inspect_ledger
from gpu_core.adapters.mlflow.probe import MlflowUnreachable, is_server, probe_mlflow
from gpu_core.adapters.nvml import GpuDiscoveryError, GpuUsers, discover_gpus
from gpu_core.cli.doctor.prefect_facts import PrefectFacts
from gpu_core.decisions.checkpoints.store_errors import is_of_address
from gpu_core.decisions.checks.doctor.finding import Finding, failed, ok, unknown, warning
from gpu_core.decisions.checks.doctor.quotas import quota_findings
from gpu_core.decisions.checks.doctor.services import (
    SeenGpu,
    ledger_findings,
    machine_findings,
    mlflow_finding,
    store_finding,
)
from gpu_core.decisions.costs.mlflow.mlflow_access import MlflowAccess
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.redaction import secrets_in
from gpu_core.decisions.policy.policy import Policy
from gpu_core.worker.startup.settings import GpuWorkerSettings


class Call(NamedTuple):
    """One check that runs concurrently with the others."""

    check: str
    examine: Callable[[], list[Finding]]
    longest_s: float = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAddresses:
    """The stores of a pool's worker. None: only Prefect's blocks have the address."""

    ledger_url: str | None = field(repr=False)
    checkpoint_uri: str | None
    mlflow: MlflowAccess | None
    """The MLflow that costs are logged to; None: there is none, or it is not known."""
    has_default_ledger: bool = False
    has_default_store: bool = False
    is_complete: bool = True
    """Prefect's blocks were read."""

    def secrets(self) -> tuple[str, ...]:
        """The values that no text may show."""
        of_mlflow = () if self.mlflow is None else self.mlflow.secrets()
        return (*secrets_in(self.ledger_url or ""), *of_mlflow)


def read_places(
    facts: PrefectFacts | None, settings: GpuWorkerSettings, ledger_url: str | None, home: Path
) -> StoreAddresses:
    """The places of the ledger, MLflow and checkpoints of this pool.

    Args:
        facts: What Prefect says; None: it does not answer, and only the settings are known.
        ledger_url: The ledger that the caller names; None: none.
        home: The worker's state folder, with the defaults in it.
    """
    if facts is None:
        uri = settings.mlflow_tracking_uri
        return StoreAddresses(
            ledger_url=ledger_url or settings.ledger_url,
            checkpoint_uri=settings.checkpoint_uri,
            mlflow=None if uri is None else MlflowAccess.of(uri),
            is_complete=False,
        )
    known = facts.connections
    return StoreAddresses(
        ledger_url=ledger_url or known.ledger_url,
        checkpoint_uri=known.checkpoint_uri,
        mlflow=known.mlflow,
        has_default_ledger=ledger_url is None
        and known.ledger_url == f"sqlite:///{home / 'ledger.db'}",
        has_default_store=known.checkpoint_uri == str(home / "checkpoints"),
    )


def service_calls(places: StoreAddresses, *, in_pods: bool) -> list[Call]:
    """The checks of these places."""
    found = [_missing("store.checkpoints", "the checkpoint store")]
    if places.checkpoint_uri is not None:
        store = partial(
            store_findings,
            places.checkpoint_uri,
            in_pods=in_pods,
            is_default=places.has_default_store,
        )
        found = [Call("store.checkpoints", store)]
    if places.ledger_url is None:
        found.append(_missing("ledger.version", "the ledger"))
    else:
        ledger = partial(
            ledger_and_clock_findings,
            places.ledger_url,
            in_pods=in_pods,
            is_default=places.has_default_ledger,
        )
        found.append(Call("ledger.version", ledger))
    if places.mlflow is None and not places.is_complete:
        return [*found, _missing("mlflow.access", "MLflow")]
    return [*found, Call("mlflow.access", partial(mlflow_findings, places.mlflow))]


def _missing(check: str, what: str) -> Call:
    text = f"{what} is configured in a block, but the Prefect server is not available"
    return Call(check, lambda: [unknown(check, text)])


def store_findings(uri: str, *, in_pods: bool, is_default: bool) -> list[Finding]:
    """Can runs save where they should? Those in pods have other folders than this machine."""
    check = "store.checkpoints"
    if in_pods and "s3://" not in uri.lower():
        if is_default:
            text = (
                "No checkpoint store is configured. Checkpoints will be lost when their pod is "
                "deleted"
            )
            return [warning(check, text, "prefect-gpu setup --checkpoint-uri s3://bucket/prefix")]
        text = (
            f"{uri} is a local path inside the pods. Please ensure that it is on a volume "
            "mounted on all nodes"
        )
        return [unknown(check, text)]
    try:
        return [store_finding(probe_store(uri))]
    except StoreMisconfigured as error:
        if in_pods and not is_of_address(error.remedy):
            return [_for_runs_alone(error)]
        return [failed(check, f"{error.uri} cannot be used: {error.reason}", error.remedy)]
    except StoreUnreachable as error:
        return [_for_runs_alone(error) if in_pods else failed(check, str(error))]
    except InvalidInput as error:
        return [failed(check, str(error))]


def _for_runs_alone(error: StoreUnreachable) -> Finding:
    """Pods may have credentials and a network of their own: the worker needs neither."""
    return unknown(
        "store.checkpoints",
        f"{error.uri} is not accessible from this machine, but only flow runs require access: "
        f"{error.reason}",
        "please verify access using the credentials and network of the flow runs",
    )


def ledger_and_clock_findings(url: str, *, in_pods: bool, is_default: bool) -> list[Finding]:
    """Can the ledger be read, does its version fit, and is its clock right?"""
    if in_pods and is_default:
        text = (
            "No ledger is configured. The ledger is a file in the worker's pod and will be lost "
            "when the pod is deleted"
        )
        remedy = "prefect-gpu setup --ledger-url postgresql://..."
        return [warning("ledger.version", text, remedy)]
    try:
        return list(ledger_findings(inspect_ledger(url)))
    except (LedgerError, InvalidInput) as error:
        remedy = "please check PREFECT_INTEGRATIONS_GPU_LEDGER_URL and the ledger block"
        if in_pods:
            remedy += (
                ". If you use the Helm chart, check the Secret specified by ledger.existingSecret"
            )
        return [failed("ledger.version", str(error), remedy)]


def mlflow_findings(access: MlflowAccess | None) -> list[Finding]:
    """Is MLflow there, and does it take our credentials?"""
    check = "mlflow.access"
    if access is None:
        return [ok(check, "No tracking server is configured, so costs are not logged to MLflow")]
    if not is_server(access):
        return [unknown(check, f"{access.tracking_uri} is not a tracking server, skipping")]
    try:
        return [mlflow_finding(probe_mlflow(access))]
    except MlflowUnreachable as error:
        return [
            failed(
                check,
                str(error),
                "please ensure that the server is running and check "
                "the address with prefect-gpu setup --mlflow-uri",
            )
        ]


def machine_gpu_findings(policy: Policy, environment: Mapping[str, str]) -> list[Finding]:
    """The findings on the GPUs that a worker of this machine has."""
    virtual = 0 if policy.virtual_gpus is None else policy.virtual_gpus.count
    try:
        gpus = discover_gpus(environment)
        users = GpuUsers()
        try:
            by_gpu = users.process_ids() if gpus else {}
        finally:
            users.close()
    except GpuDiscoveryError as error:
        remedy = (
            "please ensure that nvidia-smi lists the GPUs. You may need to reinstall the driver "
            "or restart the machine"
        )
        return [failed("gpus.nvml", str(error), remedy)]
    seen = tuple(
        SeenGpu(
            name=gpu.product_name,
            uuid=gpu.uuid,
            memory_bytes=gpu.memory_total_bytes,
            is_mig=gpu.is_mig_enabled,
        )
        for gpu in gpus
    )
    found = machine_findings(seen, virtual, len({pid for ids in by_gpu.values() for pid in ids}))
    by_type = (
        {}
        if policy.virtual_gpus is None or seen
        else {policy.virtual_gpus.gpu_type: policy.virtual_gpus.count}
    )
    return [*found, *quota_findings(policy.quotas, len(seen) or virtual, by_type)]
