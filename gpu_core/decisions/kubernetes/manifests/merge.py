"""The merge of our manifest and the platform team's. The rules stand in `DESIGN.md`."""

from collections.abc import Mapping, Sequence
from typing import Any

from gpu_core.decisions.kubernetes.manifests.names import without_reserved

Manifest = dict[str, Any]
"""A Kubernetes object or a part of one: plain data, as JSON has it."""

# By what the items of these lists are the same item.
_IDENTITY: Mapping[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "env": ("name",),
    "imagePullSecrets": ("name",),
    "tolerations": ("key", "operator", "value", "effect"),
}

# Lists whose items are merged inside. Any other item is taken whole: half of one volume's source
# and half of another's would be neither.
_MERGED_INSIDE = frozenset({"containers", "initContainers"})


def cleaned(value: Any) -> Any:
    """A copy without nulls, which the API takes for absent and schemas refuse."""
    if isinstance(value, Mapping):
        return {key: cleaned(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [cleaned(item) for item in value if item is not None]
    return value


def cleaned_job(template: Mapping[str, Any]) -> Manifest:
    """A copy of the pool's Job, rendered, without nulls and without what is the worker's to say.

    Labels and annotations that begin with `prefect-gpu.dev/` are the worker's own, on the Job and
    on its pods, from any source.
    """
    job: Manifest = cleaned(template)
    if "metadata" in job:
        job["metadata"] = without_reserved(job["metadata"])
    pod = job.get("spec", {}).get("template", {})
    if "metadata" in pod:
        pod["metadata"] = without_reserved(pod["metadata"])
    return job


def overlaid(base: Manifest, ours: Mapping[str, Any]) -> Manifest:
    """The base with ours in it: where both say something, ours counts."""
    return _merged(base, ours, ours_win=True)


def filled(base: Manifest, ours: Mapping[str, Any]) -> Manifest:
    """The base with ours in its gaps: where both say something, the base counts."""
    return _merged(base, ours, ours_win=False)


def _merged(base: Mapping[str, Any], ours: Mapping[str, Any], *, ours_win: bool) -> Manifest:
    result = dict(base)
    for key, value in ours.items():
        if key not in result:
            result[key] = value
        elif isinstance(value, Mapping) and isinstance(result[key], Mapping):
            result[key] = _merged(result[key], value, ours_win=ours_win)
        elif key in _IDENTITY and isinstance(result[key], list):
            result[key] = _merged_list(key, result[key], value, ours_win=ours_win)
        elif ours_win:
            result[key] = value
    return result


def _merged_list(
    key: str, base: Sequence[Manifest], ours: Sequence[Manifest], *, ours_win: bool
) -> list[Manifest]:
    result = {_identity(key, item): item for item in base}
    for item in ours:
        identity = _identity(key, item)
        if identity not in result:
            result[identity] = item
        elif key in _MERGED_INSIDE:
            result[identity] = _merged(result[identity], item, ours_win=ours_win)
        elif ours_win:
            result[identity] = item
    return list(result.values())


def _identity(key: str, item: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(item.get(part) for part in _IDENTITY[key])
