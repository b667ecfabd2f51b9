"""Does a policy name a GPU type that was probably misspelt?"""

from collections.abc import Iterator, Mapping

from gpu_core.decisions.catalog.gpu_types import GPU_TYPES
from gpu_core.decisions.catalog.product_names import gpu_types_meant
from gpu_core.decisions.checks.files.findings import FileFinding
from gpu_core.decisions.kubernetes.lint import Severity
from gpu_core.decisions.model.errors import alternatives, nearest_name
from gpu_core.decisions.policy.policy import Policy

MISSPELT_GPU_TYPE = "misspelt-gpu-type"


def misspelt_gpu_types(
    policy: Policy, lines: Mapping[str, int], place: str | None
) -> list[FileFinding]:
    """Which GPU types of the pool's nodes are close to a known name, and are none?

    A policy may name GPU types of its own, so that an unknown name alone is no finding.

    Args:
        policy: It has been read without errors.
        lines: The line of each field, by its dotted path.
        place: Which of several objects in the file; None: the file has one.
    """
    return [
        FileFinding(
            severity=Severity.WARNING,
            code=MISSPELT_GPU_TYPE,
            place=place,
            path=path,
            line=lines.get(path),
            message=f"{name!r} has no price and is not in the catalog; "
            f"did you mean {alternatives(meant)}?",
        )
        for path, name in _named(policy)
        if (meant := _meant(name, policy))
    ]


def _named(policy: Policy) -> Iterator[tuple[str, str]]:
    if policy.virtual_gpus is not None:
        yield "virtual_gpus.gpu_type", policy.virtual_gpus.gpu_type
    for index, nodes in enumerate(policy.kubernetes.provisioned):
        yield f"kubernetes.provisioned.{index}.gpu_type", nodes.gpu_type


def _meant(name: str, policy: Policy) -> tuple[str, ...]:
    """The priced types that the name may stand for, else those of the catalog."""
    if name in policy.prices or name in GPU_TYPES:
        return ()
    for known in (policy.prices, GPU_TYPES):
        nearest = nearest_name(name, known)
        meant = gpu_types_meant(name, known) or (() if nearest is None else (nearest,))
        if meant:
            return meant
    return ()
