"""GPU types, teams and queues whose names are probably misspelled."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher

from gpu_core.decisions.catalog.gpu_types import GPU_TYPES
from gpu_core.decisions.catalog.product_names import gpu_types_meant, nearest_gpu_types
from gpu_core.decisions.checks.files.findings import FileFinding
from gpu_core.decisions.kubernetes.lint import Severity
from gpu_core.decisions.model.errors import alternatives
from gpu_core.decisions.policy.flavor_keys import ANY
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.policy.quotas import Quota

MISSPELLED_GPU_TYPE = "misspelt-gpu-type"
MISSPELLED_TEAM = "misspelt-team"
MISSPELLED_QUEUE = "misspelt-queue"

USUAL_QUEUES = ("critical", "high", "medium", "low")

_CLOSE = 0.8
"""The least similarity of a misspelling: one letter of five is wrong (Ratcliff and Obershelp 1988).
Names of one's own are often alike, so that it is more than for names from a fixed list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Doubt:
    code: str
    path: str
    message: str


def misspelled_names(
    policy: Policy, lines: Mapping[str, int], place: str | None
) -> list[FileFinding]:
    """The names in the policy that are unknown and close to a known one.

    A policy may name GPU types, teams and queues of its own. An unknown name alone is a finding
    only for a GPU type with a quota: no pool has it.

    Args:
        policy: It has been read without errors.
        lines: The line of each field, by its dotted path.
        place: Which of several objects in the file; None: the file has one.
    """
    doubts = [*_gpu_types(policy), *_teams(policy), *_queues(policy)]
    return [
        FileFinding(
            severity=Severity.WARNING,
            code=doubt.code,
            place=place,
            path=doubt.path,
            line=lines.get(doubt.path),
            message=doubt.message,
        )
        for doubt in doubts
    ]


def doubt_of_gpu_type(name: str, policy: Policy | None) -> str | None:
    """The doubt that a pool with this policy has this GPU type, for people; None: no doubt.

    Args:
        policy: It and the catalog name all GPU types. None: it is not known, and only a name close
            to one of the catalog is a doubt.
    """
    prices = {} if policy is None else policy.prices
    meant = _gpu_type_meant(name, prices)
    unpriced = "" if name in prices else "has no price and "
    if meant:
        return f"{name!r} {unpriced}is not in the catalog. Did you mean {alternatives(meant)}?"
    is_known = name in prices or name in GPU_TYPES
    if policy is None or is_known or name in dict(_offered_gpu_types(policy)).values():
        return None
    return f"{name!r} {unpriced}is not in the catalog. Add prices.{name} if the pool has it."


def doubt_of_team(name: str, policy: Policy) -> str | None:
    """The doubt that this is a team, for people; None: no doubt.

    A team that the policy does not have shares what is left, unless the policy refuses it.
    """
    known = dict.fromkeys(team for _, teams in _team_sections(policy) for team in teams)
    meant = None if name in known else _misspelled(name, known)
    question = "" if meant is None else f". Did you mean {meant!r}?"
    quotas = policy.quotas
    if quotas is not None and quotas.unlisted == "refused" and name not in quotas.teams:
        remedy = question or f". Add quotas.teams.{name}."
        return f"{name!r} has no quota and quotas.unlisted is refused: its runs never start{remedy}"
    return None if meant is None else f"{name!r} is not in the policy{question}"


def _gpu_types(policy: Policy) -> Iterator[_Doubt]:
    for path, name in _named_gpu_types(policy):
        if path.startswith("prices."):
            meant = _gpu_type_meant(name, ())
            message = f"{name!r} is not in the catalog. Did you mean {alternatives(meant)}?"
            doubt = message if meant else None
        else:
            doubt = doubt_of_gpu_type(name, policy)
        if doubt is not None:
            yield _Doubt(code=MISSPELLED_GPU_TYPE, path=path, message=doubt)


def _named_gpu_types(policy: Policy) -> Iterator[tuple[str, str]]:
    for name in policy.prices:
        yield f"prices.{name}", name
    yield from _offered_gpu_types(policy)
    if policy.quotas is None:
        return
    for name, team in policy.quotas.teams.items():
        yield from _flavors(f"quotas.teams.{name}", team)
    for name, cohort in policy.quotas.cohorts.items():
        yield from _flavors(f"quotas.cohorts.{name}", cohort)


def _offered_gpu_types(policy: Policy) -> Iterator[tuple[str, str]]:
    """The GPU types that the pool has or gets by this policy."""
    if policy.virtual_gpus is not None:
        yield "virtual_gpus.gpu_type", policy.virtual_gpus.gpu_type
    for index, nodes in enumerate(policy.kubernetes.provisioned):
        yield f"kubernetes.provisioned.{index}.gpu_type", nodes.gpu_type
    for index, offer in enumerate(policy.scale.offers):
        yield f"scale.offers.{index}.gpu_type", offer.gpu_type


def _flavors(path: str, quota: Quota) -> Iterator[tuple[str, str]]:
    limits = {
        "nominal_quota": quota.nominal_quota_milli or {},
        "borrowing_limit": quota.borrowing_limit_milli,
        "lending_limit": quota.lending_limit_milli,
    }
    for limit, gpus in limits.items():
        for flavor in gpus:
            gpu_type = flavor.partition("/")[0]
            if gpu_type != ANY:
                yield f"{path}.{limit}.{flavor}", gpu_type


def _gpu_type_meant(name: str, priced: Collection[str]) -> tuple[str, ...]:
    """The types of the same product, else of the nearest name: priced ones before the catalog's."""
    if name in priced or name in GPU_TYPES:
        return ()
    lists = (priced, GPU_TYPES)
    candidates = [gpu_types_meant(name, known) for known in lists]
    candidates += [nearest_gpu_types(name, known) for known in lists]
    return next(filter(None, candidates), ())


def _teams(policy: Policy) -> Iterator[_Doubt]:
    """Names in one section that are close to, and not among, those of the section before it."""
    named = [
        (path, f"{path}.{name}", name) for path, names in _team_sections(policy) for name in names
    ]
    named += [
        ("budgets", f"budgets.{index}.of", budget.of)
        for index, budget in enumerate(policy.budgets)
        if budget.scope == "team" and budget.of is not None
    ]
    known: dict[str, str] = {}
    for section, path, name in named:
        others = [other for other, where in known.items() if where != section]
        meant = None if name in known else _misspelled(name, others)
        if meant is not None:
            yield _Doubt(
                code=MISSPELLED_TEAM,
                path=path,
                message=f"{name!r} is close to the team {meant!r} of {known[meant]}. "
                "Did you mean that?",
            )
        known.setdefault(name, section)


def _team_sections(policy: Policy) -> list[tuple[str, Collection[str]]]:
    """The sections of the policy that are by team, with the names there."""
    return [
        ("quotas.teams", () if policy.quotas is None else policy.quotas.teams),
        ("permissions.teams", policy.permissions.teams),
        ("fair_share.weights", policy.fair_share.weights),
    ]


def _queues(policy: Policy) -> Iterator[_Doubt]:
    missing = [name for name in USUAL_QUEUES if name not in policy.priorities]
    for name in policy.priorities:
        meant = None if name in USUAL_QUEUES else _misspelled(name, missing)
        if meant is not None:
            yield _Doubt(
                code=MISSPELLED_QUEUE,
                path=f"priorities.{name}",
                message=f"{name!r} is not one of the usual queues. Did you mean {meant!r}?",
            )


def _misspelled(name: str, known: Iterable[str]) -> str | None:
    """The known name that this is a misspelling of; None: none.

    Names that differ in their numbers only, such as `vision-1` and `vision-2`, are two names.
    """
    for other in sorted(known):
        if re.sub(r"\d+", "0", name) == re.sub(r"\d+", "0", other):
            continue
        if SequenceMatcher(None, name.lower(), other.lower()).ratio() >= _CLOSE:
            return other
    return None
