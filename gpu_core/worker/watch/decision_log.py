"""Writes this worker's decisions to the decision log in the ledger."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from uuid import uuid4

import anyio

from gpu_core.adapters.ledger import Ledger, is_ledger_outage
from gpu_core.adapters.ledger.database import Logged
from gpu_core.adapters.ledger.spool import SpooledRecord
from gpu_core.decisions.model.attempts import Attempt, EndReason
from gpu_core.decisions.model.decision_chain import POLICY_TEXT, Decision, DecisionKind
from gpu_core.decisions.model.reasons import Explanation, Reason
from gpu_core.decisions.model.redaction import redact
from gpu_core.decisions.model.workload import Workload
from gpu_core.decisions.policy.policy import Policy
from gpu_core.worker.operations.threads import in_thread
from gpu_core.worker.watch.spooled_writes import SpooledWrites

# Reasons of runs that wait go back and forth with what happens ahead of them: 10,000 of them would
# add 30 million records a day at one in half a minute.
_REASON_EVERY = timedelta(minutes=10)

# Retention keeps 31 days at least, and a worker that has restarted counts from its own start.
_POLICY_NOTED_EVERY = timedelta(days=15)


class DecisionLog:
    """Collects decisions, and writes them down with what they change or at the cycle's end.

    Args:
        ledger: Where the log is.
        pool: Of this worker.
        host: Of this worker: `pool@host` has one chain, whichever worker acts.
        writes: Keeps what is new while the ledger is unavailable.
    """

    def __init__(self, ledger: Ledger, pool: str, host: str, writes: SpooledWrites) -> None:
        self._writes = writes
        self._ledger = ledger
        self._pool = pool
        self._writer = f"{pool}@{host}"
        self._waiting: list[Decision] = []
        self._one_flush = anyio.Lock()
        self._reasons: dict[str, tuple[Reason, datetime]] = {}
        self._first: set[str] = set()
        self._behind: set[str] = set()
        self._policy: Policy | None = None
        self._policy_read_at = datetime.min.replace(tzinfo=UTC)

    def admissions(self, admitted: Sequence[tuple[Attempt, Workload]]) -> Logged:
        """That these attempts get their GPUs."""
        return self._logged(*(self._admission(a, workload) for a, workload in admitted))

    def stop(
        self, attempt: Attempt, reason: EndReason, message: str, now: datetime, by: str | None
    ) -> Logged:
        """That an attempt must end.

        Args:
            by: The run that its GPUs are taken for.
        """
        is_preempted = reason is EndReason.PREEMPTED
        return self._logged(
            Decision(
                decision_id=str(uuid4()),
                decided_at=now,
                kind=DecisionKind.PREEMPTED if is_preempted else DecisionKind.STOPPED,
                pool=self._pool,
                flow_run_id=attempt.flow_run_id,
                who="person" if reason is EndReason.CANCELLED else "scheduler",
                reason=reason.value,
                message=message,
                numbers={"attempt": attempt.number, "gpus": attempt.gpu_count, "for_run": by},
            )
        )

    def refused(self, flow_run_id: str, message: str, now: datetime) -> None:
        """A run can never start."""
        self._note(DecisionKind.REFUSED, now, flow_run_id, message=message)

    def waiting(self, explanations: Sequence[Explanation], now: datetime) -> None:
        """Note the reasons that are new, of each run one in ten minutes at most."""
        before, self._reasons = self._reasons, {}
        for e in explanations:
            last = before.get(e.workload_id)
            if last is not None and (last[0] is e.reason or now - last[1] < _REASON_EVERY):
                self._reasons[e.workload_id] = last
                continue
            self._reasons[e.workload_id] = e.reason, now
            self._note(
                DecisionKind.HELD,
                now,
                e.workload_id,
                reason=e.reason.value,
                message=e.summary,
                numbers={"position": e.position, **e.numbers},
                who="person" if e.reason is Reason.HELD else "scheduler",
            )

    async def moved_up(self, workloads: Sequence[Workload], now: datetime) -> None:
        """Note which runs a person has moved to the front of the queue, each once.

        A run that comes into the queue with the tag may have been noted before: by the last
        worker, or before an attempt of it was preempted. The ledger has the answer. While it is
        unavailable, the question is repeated in the next cycle.
        """
        first = {workload.workload_id for workload in workloads if workload.priority_override}
        moved = first & self._behind
        came = first - self._first - moved
        noted = await self._noted_before(came)
        for flow_run_id in sorted(moved | (set() if noted is None else came - noted)):
            message = "Moved to the front of the queue, with the tag gpu:first."
            self._note(DecisionKind.MOVED_UP, now, flow_run_id, message=message, who="person")
        self._first = first - came if noted is None else first
        self._behind = {workload.workload_id for workload in workloads} - first

    async def _noted_before(self, flow_run_ids: set[str]) -> frozenset[str] | None:
        """The runs among these that the log has as moved up; None: the ledger is unavailable."""
        if not flow_run_ids:
            return frozenset()
        ask = self._ledger.runs_with_decision
        try:
            return await in_thread(ask, DecisionKind.MOVED_UP, flow_run_ids)
        except Exception as error:
            if not is_ledger_outage(error):
                raise
            return None

    async def policy(self, policy: Policy, text: str | None, now: datetime) -> None:
        """Note that another policy is in force, also than the last worker's.

        A policy that stays in force is noted again in time: a purge may take older records.

        Args:
            text: Of its file; None: it is the default one.
        """
        if policy is self._policy and now - self._policy_read_at < _POLICY_NOTED_EVERY:
            return
        digest = sha256(policy.model_dump_json().encode()).hexdigest()
        known = await in_thread(self._last_policy, now - _POLICY_NOTED_EVERY)
        if known != digest:
            self._note(
                DecisionKind.POLICY_CHANGED,
                now,
                message="Another policy is in force." if known else "The policy in force.",
                numbers={
                    "sha256": digest,
                    "sha256_before": known,
                    POLICY_TEXT: None if text is None else redact(text),
                },
                who="person",
            )
        self._policy, self._policy_read_at = policy, now

    async def flush(self) -> None:
        """Write what was noted to the ledger, or to the disk while the ledger is unavailable."""
        # The flush of the cycle before may still run: only one at a time deletes what it wrote.
        async with self._one_flush:
            if not self._waiting:
                return
            batch = tuple(self._waiting)
            await self._writes.write(SpooledRecord(writer=self._writer, decisions=batch))
            del self._waiting[: len(batch)]

    def _last_policy(self, since: datetime) -> str | None:
        waiting = [d for d in self._waiting if d.kind is DecisionKind.POLICY_CHANGED]
        if waiting:
            return str(waiting[-1].numbers["sha256"])
        return self._ledger.last_policy(self._writer, since)

    def _admission(self, attempt: Attempt, workload: Workload) -> Decision:
        got = "is planned" if attempt.bound_at is None else "got its GPUs"
        return Decision(
            decision_id=attempt.attempt_id,
            decided_at=attempt.admitted_at,
            kind=DecisionKind.ADMITTED,
            pool=self._pool,
            flow_run_id=attempt.flow_run_id,
            reason=Reason.STARTING.value,
            message=f"Attempt {attempt.number} {got} on {attempt.node}.",
            numbers={
                "attempt": attempt.number,
                "node": attempt.node,
                "gpus": str(attempt.gpus),
                "gpu_type": attempt.gpu_type,
                "capacity_type": attempt.capacity_type,
                "points": workload.priority,
                "waited_s": int((attempt.admitted_at - workload.submitted_at).total_seconds()),
                "price_micro_usd_per_gpu_hour": attempt.price_micro_usd_per_gpu_hour,
            },
        )

    def _note(
        self,
        kind: DecisionKind,
        now: datetime,
        flow_run_id: str | None = None,
        *,
        message: str,
        reason: str | None = None,
        numbers: Mapping[str, int | str | None] | None = None,
        who: str = "scheduler",
    ) -> None:
        self._waiting.append(
            Decision(
                decision_id=str(uuid4()),
                decided_at=now,
                kind=kind,
                pool=self._pool,
                flow_run_id=flow_run_id,
                who=who,
                reason=reason,
                message=message,
                numbers=numbers or {},
            )
        )

    def _logged(self, *decisions: Decision) -> Logged:
        return Logged(self._writer, decisions)
