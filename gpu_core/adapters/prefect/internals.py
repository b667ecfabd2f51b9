"""The private parts of Prefect that this package overrides or uses, and whether they are there.

Prefect may move them in any release. The worker checks them at its start, so that the answer is
one sentence instead of a run that never starts; `make test-prefect` checks them in the lowest and
the highest release that this package allows.
"""

import importlib
import inspect
import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import requires, version

from packaging.requirements import Requirement

_WORKER = "prefect.workers.base:BaseWorker"
_POD = "prefect_kubernetes.worker:KubernetesWorkerJobConfiguration"

OVERRIDDEN: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    _WORKER: {
        "_get_scheduled_flow_runs": ("self",),
        "_initiate_run": ("self", "flow_run", "configuration"),
        "_propose_pending_state": ("self", "flow_run"),
        "_setup_cancellation_observer": ("self",),
        "_submit_run": ("self", "flow_run"),
    },
    _POD: {"_propagate_labels_to_pod": ("self",), "_slugify_labels": ("self",)},
    "prefect.workers.base:BaseJobConfiguration": {"_base_environment": ("cls",)},
}
"""Methods that our classes override, with their parameters."""

USED: Mapping[str, tuple[str, ...]] = {
    _WORKER: (
        "_cancelling_observer",
        "_create_pool_if_not_found",
        "_documentation_url",
        "_emit_flow_run_submitted_event",
        "_has_successfully_synced",
        "_logger",
        "_propose_crashed_state",
        "_release_limit_slot",
        "_runs_task_group",
        "_submitting_flow_run_ids",
        "_work_pool_name",
        "_work_queues",
    ),
    "prefect._internal.observers:FlowRunCancellingObserver": ("remove_in_flight_flow_run_id",),
    "prefect._internal.launchers": ("resolve_bundle_step_with_launcher",),
    "prefect.blocks.core:Block": ("_from_block_document",),
    "prefect.client.orchestration:PrefectClient": ("_client",),
    "prefect_kubernetes.utilities": ("_slugify_label_key", "_slugify_label_value"),
}
"""The parts that the worker reads or calls: of a class, of its instances, or of a module."""

USED_BY_COMMANDS: Mapping[str, tuple[str, ...]] = {
    "prefect.cli.deploy._models": (
        "ConcurrencyLimitSpec",
        "DeploymentConfig",
        "PrefectYamlModel",
        "RawScheduleConfig",
        "WorkPoolConfig",
    ),
    "prefect.cli.deploy._schedules": ("_schedule_config_to_deployment_schedule",),
}
"""The parts that `prefect-gpu setup` and `check` use to read a `prefect.yaml`."""


def missing_parts(used: Mapping[str, tuple[str, ...]] = USED) -> tuple[str, ...]:
    """The parts that the installed Prefect lacks, or takes other arguments for."""
    found = {path: _owner(path) for path in (*OVERRIDDEN, *used)}
    missing = [
        _named(path, name)
        for path, names in used.items()
        for name in names
        if not _has(found[path], name)
    ]
    changed = [
        f"{_named(path, name)}({', '.join(parameters)})"
        for path, methods in OVERRIDDEN.items()
        for name, parameters in methods.items()
        if _parameters(found[path], name) != parameters
    ]
    return tuple(sorted({*missing, *changed}))


def unsupported_prefect(missing: tuple[str, ...]) -> str:
    """The sentence for a Prefect that lacks these parts: what is missing, and what to install."""
    allowed = " and ".join(
        f"{each.name} {each.specifier}"
        for each in map(Requirement, requires("prefect-gpu") or ())
        if each.name in ("prefect", "prefect-kubernetes")
    )
    return (
        f"prefect {version('prefect')} with prefect-kubernetes "
        f"{version('prefect-kubernetes')} lacks {', '.join(missing)}, which this worker "
        f"requires. Install {allowed} or upgrade prefect-gpu."
    )


def _owner(path: str) -> object | None:
    """A class or a module; None: this Prefect has none of this name."""
    module, _, name = path.partition(":")
    try:
        loaded = importlib.import_module(module)
    except ImportError:
        return None
    return getattr(loaded, name, None) if name else loaded


def _has(owner: object | None, name: str) -> bool:
    if owner is None:
        return False
    if hasattr(owner, name):
        return True
    # Attributes of instances are set in the code of their classes.
    return inspect.isclass(owner) and any(
        re.search(rf"\bself\.{name}\b", _source(each)) for each in owner.__mro__
    )


# To find a class in its file, Python parses the whole file: 35 ms for Prefect's worker.
@cache
def _source(owner: type) -> str:
    try:
        return inspect.getsource(owner)
    except (OSError, TypeError):
        return ""  # a class of C, or one that was made while the module was loaded


def _parameters(owner: object | None, name: str) -> tuple[str, ...] | None:
    method = None if owner is None else inspect.getattr_static(owner, name, None)
    if isinstance(method, classmethod | staticmethod):
        method = method.__func__
    return tuple(inspect.signature(method).parameters) if callable(method) else None


def _named(path: str, name: str) -> str:
    return f"{path.rpartition(':')[2]}.{name}"
