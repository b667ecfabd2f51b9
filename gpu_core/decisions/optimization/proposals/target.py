"""The deployment that a proposal changes: as it was, and as it is."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpu_core.decisions.optimization.proposals.proposal import JobValue, Proposal


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A deployment of Prefect, as far as proposals look at it."""

    deployment_id: str
    work_pool: str | None
    work_queue: str | None
    entrypoint: str | None
    job_variables: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """Equal for what is equal. Job variables may hold secrets, and a digest shows none."""
        content = [
            self.deployment_id,
            self.work_pool,
            self.work_queue,
            self.entrypoint,
            dict(self.job_variables),
        ]
        text = json.dumps(content, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()

    def with_variables(self, values: Mapping[str, Any]) -> "Target":
        """The same deployment with these job variables changed."""
        return replace(self, job_variables=dict(self.job_variables) | dict(values))

    def without(self, names: frozenset[str]) -> "Target":
        """The same deployment without these job variables."""
        kept = {name: value for name, value in self.job_variables.items() if name not in names}
        return replace(self, job_variables=kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """The state of a deployment when a change of it was proposed: enough to compare and to undo."""

    deployment_id: str
    digest: str
    values: Mapping[str, Any]
    """Of the variables that change; one that it did not set is left out."""

    @classmethod
    def of(cls, target: Target, proposal: Proposal) -> "Before":
        """The facts that have to be known of this deployment."""
        changed = proposal.job_variables
        return cls(
            deployment_id=target.deployment_id,
            digest=target.digest,
            values={n: v for n, v in target.job_variables.items() if n in changed},
        )


def changed(target: Target, proposal: Proposal) -> Target:
    """The deployment with the change."""
    return target.with_variables(proposal.job_variables)


def is_set(target: Target, values: Mapping[str, JobValue]) -> bool:
    """Has the deployment these job variables already?"""
    missing = object()
    return all(target.job_variables.get(name, missing) == value for name, value in values.items())
