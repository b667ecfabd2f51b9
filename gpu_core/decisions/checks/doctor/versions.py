"""Do the versions of everything fit together?"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

from gpu_core.decisions.checks.doctor.finding import Finding, failed, ok, unknown, warning
from gpu_core.decisions.policy.kubernetes_version import Capabilities, capabilities_of

LEAST_KUBERNETES = (1, 20)
"""The oldest version that the tests run on (`tests/cluster`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A package that this one needs.

    Attributes:
        wanted: The versions that fit, such as `>=3.8.8,<3.10`; empty: any.
        installed: The one that is installed; None: none is.
    """

    name: str
    wanted: str
    installed: str | None
    is_met: bool


def package_findings(
    own: str, python: str, requirements: Iterable[Requirement]
) -> Iterator[Finding]:
    """Is everything installed that this package needs, in versions that fit?"""
    known = tuple(requirements)
    shown = ", ".join(
        f"{each.name} {each.installed}" for each in known if each.name.startswith("prefect")
    )
    yield ok(
        "versions.packages",
        f"prefect-gpu {own}, Python {python}, {shown}",
        [f"{each.name} {each.installed} ({each.wanted or 'any'})" for each in known],
    )
    for each in known:
        if not each.is_met:
            yield failed(
                "versions.requirement",
                f"{each.name} is {each.installed or 'not installed'}, but prefect-gpu requires "
                f"{each.wanted or 'it'}",
                f"pip install '{each.name}{each.wanted}'",
            )


def prefect_version_finding(client: str, server: str | None, *, is_cloud: bool) -> Finding:
    """Does Prefect's server understand this client?

    Prefect supports clients up to the server's version, and warns of newer ones
    (docs.prefect.io, "Server concepts", read 2026-11).

    Args:
        client: The version of the package `prefect` here.
        server: The server's; None: it does not say.
        is_cloud: Whether it is Prefect Cloud, which is always new enough.
    """
    check = "versions.prefect-server"
    if is_cloud:
        return ok(check, f"Prefect Cloud (client version: {client})")
    if server is None:
        return unknown(check, f"Unable to determine the server version (client version: {client})")
    here, there = _numbers(client), _numbers(server)
    if there[:2] < here[:2]:
        return warning(
            check,
            f"The server version ({server}) is older than the client version ({client})",
            f"please upgrade the server to {client}, or install prefect {server} on this machine "
            "and in the workers",
        )
    return ok(check, f"server version {server}, client version {client}")


def kubernetes_version_findings(server: str, policy: str) -> Iterator[Finding]:
    """Does the cluster do what the policy's `kubernetes.version` says?

    Args:
        server: What the API server says: `v1.34.2-eks-1`.
        policy: The policy's `kubernetes.version`.
    """
    check = "versions.kubernetes"
    found = _numbers(server)
    if len(found) < 2:
        yield unknown(check, f"The API server reported an invalid version: {server!r}")
        return
    shown = f"{found[0]}.{found[1]}"
    remedy = f'please set `kubernetes.version` to "{shown}" in the policy'
    if found[:2] < LEAST_KUBERNETES:
        least = ".".join(map(str, LEAST_KUBERNETES))
        yield failed(
            check,
            f"Kubernetes {server} is older than the minimum supported version {least}",
            "please upgrade the cluster",
        )
        return
    has, assumed = capabilities_of(server), capabilities_of(policy)
    too_much = _only_in(assumed, has)
    unused = _only_in(has, assumed)
    if too_much:
        yield failed(
            check,
            f"The policy specifies Kubernetes {policy}, but the cluster is running {server}, "
            f"where the following fields are silently ignored: {', '.join(too_much)}",
            remedy,
        )
    elif unused:
        yield warning(
            check,
            f"The policy specifies Kubernetes {policy}, but the cluster is running {server}. The "
            f"following fields are not used: {', '.join(unused)}",
            remedy,
        )
    else:
        yield ok(check, f"Kubernetes {server} (policy: {policy})")


def _only_in(one: Capabilities, other: Capabilities) -> list[str]:
    return [
        field.name.replace("_", " ")
        for field in fields(Capabilities)
        if getattr(one, field.name) and not getattr(other, field.name)
    ]


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"v?(\d+(?:\.\d+)*)", version)
    return () if found is None else tuple(int(part) for part in found[1].split("."))
