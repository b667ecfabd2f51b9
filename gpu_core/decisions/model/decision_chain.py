"""The log of decisions: who decided what, when and why, each record chained to the one before.

A record's hash is of its content and of the hash before it, so that a record which is changed,
taken out or put in later no longer fits (RFC 9162, section 2, chains the leaves of a log likewise
by hashes). What it proves: no record was changed, unless all later hashes were written anew.
Records that are missing at the end are seen only by comparing the last hash with one that was kept
elsewhere.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from itertools import groupby
from types import MappingProxyType

from gpu_core.decisions.model.clean_text import clean_text
from gpu_core.decisions.model.decision_anchor import Anchor, anchor_problem
from gpu_core.decisions.model.units import require_aware

POLICY_TEXT = "yaml"
"""The number of a `PolicyChanged` record with the text of the policy file, without passwords.

None: there is no file. Records of versions that wrote only the digest lack it."""


class DecisionKind(StrEnum):
    """The kind of a decision. Stable: people search for these."""

    ADMITTED = "Admitted"
    """An attempt got its GPUs."""
    PREEMPTED = "Preempted"
    """An attempt must give its GPUs to a more urgent run."""
    STOPPED = "Stopped"
    """An attempt must end for another reason, such as a cancellation or a limit."""
    REFUSED = "Refused"
    """A run can never start, and is ended."""
    HELD = "Held"
    """A run waits, for a new reason."""
    MOVED_UP = "MovedUp"
    """A person moved a run to the front of the queue."""
    POLICY_CHANGED = "PolicyChanged"
    """Another policy is in force; `POLICY_TEXT` of its numbers has the file."""
    PROPOSED = "Proposed"
    """A change of a deployment would save money."""
    APPROVED = "Approved"
    """A person approved a proposal."""
    DECLINED = "Declined"
    """A person declined a proposal."""
    CHANGE_BEGUN = "ChangeBegun"
    """A deployment is about to be changed as a proposal says."""
    APPLIED = "Applied"
    """A deployment has the change that a proposal says."""
    NOT_APPLIED = "NotApplied"
    """A proposal was approved, and its deployment had changed or was gone."""
    VERIFIED = "Verified"
    """The saving of a proposal was measured."""
    UNDONE = "Undone"
    """A person took the change of a proposal back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One decision."""

    decision_id: str
    """Writing a record twice is writing it once."""
    decided_at: datetime
    kind: DecisionKind
    pool: str
    flow_run_id: str | None = None
    """The run that it is about; None: it is about no run."""
    who: str = "scheduler"
    """`scheduler`, or `person` where a person asked for it."""
    reason: str | None = None
    """The code of why: a `Reason` or an `EndReason`."""
    message: str = ""
    """The reason, in sentences."""
    numbers: Mapping[str, int | str | None] = field(default_factory=dict)
    """The numbers that decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A decision in its writer's chain, as the ledger keeps it: texts, whose bytes are hashed."""

    writer: str
    number: int
    """1 for the first of this writer."""
    decision_id: str
    decided_at: str
    kind: str
    pool: str
    flow_run_id: str | None
    who: str
    reason: str | None
    message: str
    numbers: str
    previous_hash: str
    """Empty for the first."""
    hash: str


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a chain."""

    number: int = 0
    hash: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainCheck:
    """The result of the check of one writer's chain."""

    writer: str
    records: int
    head: Head
    problem: str | None
    """The first record that does not fit, and why; None: all do."""
    purged: int = 0
    """How many records were purged before the first one that is there."""
    is_anchor_checked: bool = False
    """Was the signature of the purge checked?"""


def chained(writer: str, head: Head, decisions: Iterable[Decision]) -> list[Link]:
    """These decisions as the next links of a writer's chain."""
    links: list[Link] = []
    for decision in decisions:
        link = _link(writer, head, decision)
        links.append(link)
        head = Head(link.number, link.hash)
    return links


def check_chains(
    links: Iterable[Link],
    anchors: Sequence[Anchor] = (),
    key: bytes | None = None,
    kept: Mapping[str, str] = MappingProxyType({}),
) -> list[ChainCheck]:
    """Does each chain fit together, from its beginning or from the anchor of its last purge?

    Args:
        links: All of them, by writer and number.
        anchors: What purges left, by writer and number.
        key: What anchors are signed with; None: their signatures are not checked.
        kept: By writer, a hash that was its last one once: some record must still have it.
    """
    of_writer = {writer: list(group) for writer, group in groupby(anchors, key=lambda a: a.writer)}
    lost = set(kept.items()) - {(anchor.writer, anchor.hash) for anchor in anchors}
    checks: list[ChainCheck] = []
    for link in links:
        lost.discard((link.writer, link.hash))
        if not checks or checks[-1].writer != link.writer:
            checks.append(_beginning(link.writer, of_writer.pop(link.writer, ()), key))
        last = checks[-1]
        checks[-1] = replace(
            last,
            records=last.records + 1,
            head=Head(link.number, link.hash),
            problem=last.problem or _problem(link, last.head),
        )
    # A purge leaves the last record of each chain.
    gone = (_beginning(writer, left, key) for writer, left in of_writer.items())
    checks += [
        replace(check, problem=f"all records after {check.purged} are missing") for check in gone
    ]
    known = {check.writer for check in checks}
    checks += [_beginning(writer, (), key) for writer, _ in lost if writer not in known]
    of_lost = {writer: _lost(kept_hash) for writer, kept_hash in lost}
    found = [replace(c, problem=c.problem or of_lost.get(c.writer)) for c in checks]
    return sorted(found, key=lambda check: check.writer)


def _lost(kept_hash: str) -> str:
    return (
        f"no record has the kept hash {kept_hash}: the records at the end were deleted, or all "
        "were written anew, or a purge took the record"
    )


def _beginning(writer: str, anchors: Sequence[Anchor], key: bytes | None) -> ChainCheck:
    if not anchors:
        return ChainCheck(writer=writer, records=0, head=Head(), problem=None)
    last = anchors[-1]
    return ChainCheck(
        writer=writer,
        records=0,
        head=Head(last.number, last.hash),
        problem=anchor_problem(anchors, key),
        purged=last.number,
        is_anchor_checked=key is not None,
    )


def _problem(link: Link, before: Head) -> str | None:
    name = f"record {link.number} ({link.decision_id})"
    if link.number <= before.number:
        return f"{name} comes after record {before.number}: it was inserted, or its number changed"
    if link.number > before.number + 1 and before.number == 0:
        return f"{name} is the first: records before it are missing, or the anchor of their purge"
    if link.number > before.number + 1:
        return f"{name} follows record {before.number}: records between them are missing"
    if link.previous_hash != before.hash:
        return f"{name} does not follow record {before.number}: one of them was exchanged"
    if link.hash != _hash(link):
        return f"{name} was changed after it was written"
    return None


def _link(writer: str, head: Head, decision: Decision) -> Link:
    unsigned = Link(
        writer=clean_text(writer),
        number=head.number + 1,
        decision_id=decision.decision_id,
        decided_at=require_aware(decision.decided_at, "decided_at").isoformat(
            timespec="microseconds"
        ),
        kind=decision.kind.value,
        pool=clean_text(decision.pool),
        flow_run_id=decision.flow_run_id,
        who=clean_text(decision.who),
        reason=decision.reason,
        message=clean_text(decision.message),
        numbers=clean_text(json.dumps(dict(decision.numbers), sort_keys=True, ensure_ascii=False)),
        previous_hash=head.hash,
        hash="",
    )
    return replace(unsigned, hash=_hash(unsigned))


def _hash(link: Link) -> str:
    content = json.dumps(_content(link), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(content.encode()).hexdigest()


def _content(link: Link) -> dict[str, object]:
    return {name: getattr(link, name) for name in Link.__slots__ if name != "hash"}
