"""The policy that a report or a question is about: a file, or what the workers had in force."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from gpu_core.adapters.files.policy_file import load_policy, policy_of
from gpu_core.adapters.ledger.store import Ledger
from gpu_core.decisions.model.errors import GpuSchedulingError
from gpu_core.decisions.policy.policy import Policy


@dataclass(frozen=True, slots=True)
class PolicyInForce:
    """A policy and its origin, for people."""

    policy: Policy
    origin: str


def policy_in_file(path: Path | None) -> PolicyInForce | None:
    """The policy in this file; None: no file is named.

    Raises:
        InvalidInput: The file cannot be used.
        InvalidInputs: Several of its fields cannot be used.
    """
    return None if path is None else PolicyInForce(load_policy(path), f"the policy file {path}")


def policy_in_force(
    given: PolicyInForce | None, ledger: Ledger, pool: str | None, moment: datetime
) -> PolicyInForce:
    """The given policy; without one, the policy that the pool's workers had in force.

    Where the ledger has none, or one that this version cannot use, it is the default policy.

    Args:
        given: What a person named; None: the ledger is asked.
        pool: The work pool; None: that of any.
        moment: The end of the time that the report is about.

    Raises:
        LedgerError: The ledger cannot be read.
    """
    if given is not None:
        return given
    default, found = Policy(version=1), ledger.policy_text_at(pool, moment)
    if found is None:
        return PolicyInForce(default, "the default policy, as the ledger has none")
    since = f"{found.since:%Y-%m-%d %H:%M} UTC"
    if found.text is None:
        return PolicyInForce(default, f"the default policy, in force since {since}")
    try:
        policy = policy_of(found.text, f"the policy in force since {since}")
    except GpuSchedulingError as error:
        return PolicyInForce(default, f"the default policy, as {error}")
    return PolicyInForce(policy, f"the policy in force since {since}, from the ledger")
