"""Does the cluster let the worker do what it has to?"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpu_core.decisions.checks.doctor.finding import Finding, failed, ok, unknown, warning
from gpu_core.decisions.checks.doctor.helm_release import HelmRelease, right_remedy
from gpu_core.decisions.kubernetes.rbac.rights import Right
from gpu_core.decisions.model.units import count

# The worker continues without them, and says what runs lack.
_CAN_DO_WITHOUT = frozenset({"pods/log", "events"})

_GRANT = "please grant this permission in the same way as the Helm chart (see docs/kubernetes.md)"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessReview:
    """The cluster's answer to one question.

    Attributes:
        namespace: Where; None: in all, or what is in none.
        is_allowed: None: unknown.
    """

    right: Right
    namespace: str | None
    is_allowed: bool | None

    def __str__(self) -> str:
        word = {True: "yes", False: "no", None: "unknown"}[self.is_allowed]
        return f"{word}: {self.right} {self.place}, for {self.right.needed_for}"

    @property
    def place(self) -> str:
        """The scope in which it holds, as a clause."""
        return "in all namespaces" if self.namespace is None else f"in namespace {self.namespace}"


def rights_findings(
    user: str | None,
    answers: Iterable[AccessReview],
    *,
    is_workers: bool,
    release: HelmRelease | None = None,
) -> Iterator[Finding]:
    """The rights that are missing, and what does not work without them.

    Args:
        user: Whose rights they are; None: unknown.
        is_workers: Whether it is the worker's own user as far as is known.
        release: The Helm release that the worker is from; None: none, or it is not known.
    """
    asked = tuple(answers)
    granted = sum(answer.is_allowed is True for answer in asked)
    who = user or "these credentials"
    for answer in asked:
        if answer.is_allowed is not False:
            continue
        make = warning if answer.right.resource in _CAN_DO_WITHOUT else failed
        yield make(
            "rights.missing",
            f"{who} may not {answer.right} {answer.place}: needed for {answer.right.needed_for}",
            _GRANT if release is None else right_remedy(release, answer.right, answer.namespace),
        )
    if any(answer.is_allowed is None for answer in asked):
        yield unknown("rights.review", f"Unable to list all permissions of {who}")
    details = [str(answer) for answer in asked]
    has = "has" if user else "have"
    yield ok("rights.granted", f"{who} {has} {granted} of {count(len(asked), 'right')}", details)
    if not is_workers:
        yield unknown(
            "rights.worker",
            f"these are the permissions of {who}, not those of the worker",
            "to check the permissions of the worker, use --service-account NAMESPACE/NAME",
        )


def missing_account(service_account: str) -> Finding:
    """The finding for an account that does not exist and whose rights are asked for."""
    namespace, _, name = service_account.partition("/")
    return failed(
        "rights.worker",
        f"ServiceAccount {name} not found in namespace {namespace}",
        "please check the value of --service-account or install the Helm chart (see "
        "docs/kubernetes.md)",
    )
