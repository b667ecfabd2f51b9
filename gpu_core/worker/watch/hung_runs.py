"""Runs that make no progress: their pages say which rank hangs, and by policy they restart."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

import anyio
from anyio.abc import TaskGroup
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import ArtifactCreate

from gpu_core.adapters.files.progress_report import ProgressReport
from gpu_core.adapters.prefect.artifacts import find_artifact, write_artifact
from gpu_core.decisions.policy.hangs import HangPolicy
from gpu_core.decisions.telemetry.hung_training import (
    HangFinding,
    HangKind,
    RankState,
    WorkLevel,
    find_hang,
    load_of,
    with_stacks,
)
from gpu_core.decisions.telemetry.hung_training_markdown import (
    HANG_KEY,
    hang_markdown,
    hang_sentence,
)
from gpu_core.worker.attempts.registry import AttemptRegistry
from gpu_core.worker.attempts.run_log import run_log
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.infrastructure import Infrastructure, ObservedUse
from gpu_core.worker.operations.metrics import hourly_cost
from gpu_core.worker.operations.throttle import Throttle

_log = logging.getLogger("prefect.gpu.hangs")

_EVERY_S = 15.0

# What is found once may end by itself: a run is restarted when it is found again after this time.
_SURE_AFTER = timedelta(seconds=30)

# Ranks in other pods send their stacks once a minute; what has not come by then does not come.
_STACKS_WITHIN = timedelta(minutes=2)


@dataclass(slots=True)
class _Watched:
    """The recorded progress of an attempt."""

    levels: dict[int, WorkLevel]
    steps: dict[int, int]
    found_at: datetime | None = None
    """Since when it hangs; None: it makes progress."""
    stacks: dict[int, str] = field(default_factory=dict)
    """Those that have come since."""
    is_being_named: bool = False
    named: tuple[HangKind, tuple[int, ...]] | None = None
    """The hang and the ranks at fault, as its log says once the stacks are taken."""

    def lacks_stacks(self, observed: ObservedUse) -> bool:
        """Has a rank not sent its stacks that may?"""
        reports = observed.progress
        may_come = {each.rank for each in reports if each.dumps_stacks}
        is_quiet = len(reports) < max((each.ranks for each in reports), default=0)
        return is_quiet or not may_come <= self.stacks.keys()


class HangWatch:
    """Judges the attempts of this worker that report their progress, every 15 s.

    Args:
        client: Prefect's.
        attempts: What runs.
        infrastructure: Knows their progress, and takes their stacks.
        tasks: Takes stacks and writes pages in the background: a rank may take seconds to answer,
            and no cycle waits for it.
        hidden: A text without secrets: stacks are shown on pages.
    """

    def __init__(
        self,
        client: PrefectClient,
        attempts: AttemptRegistry,
        infrastructure: Infrastructure,
        tasks: TaskGroup,
        hidden: Callable[[str], str] = str,
    ) -> None:
        self._client = client
        self._attempts = attempts
        self._infrastructure = infrastructure
        self._tasks = tasks
        self._hidden = hidden
        self._turns = Throttle(_EVERY_S)
        self._watched: dict[str, _Watched] = {}

    @property
    def hung(self) -> frozenset[str]:
        """The attempts that hang now, by attempt id."""
        found = (key for key, watched in self._watched.items() if watched.found_at is not None)
        return frozenset(found)

    async def hanging(self, policy: HangPolicy, now: datetime) -> list[tuple[AttemptState, str]]:
        """The attempts that must restart because they hang, each with the reason.

        Also names them.
        """
        if policy.action == "off" or not self._turns.allows(anyio.current_time()):
            return []
        stopped, watched = [], {}
        for running in self._attempts:
            if not running.phase.is_up:
                continue
            attempt_id = running.attempt.attempt_id
            known = watched[attempt_id] = self._watched.get(attempt_id) or _Watched({}, {})
            with self._attempts.faults.of_run(running, "judged by its progress", now):
                observed = await self._infrastructure.observed_use(running)
                finding = self._find(running, known, observed, policy, now)
                if finding is not None and policy.action == "restart":
                    wait = _STACKS_WITHIN if known.lacks_stacks(observed) else _SURE_AFTER
                    if now - (known.found_at or now) >= wait:
                        running.faulty_nodes = _faulty_nodes(finding, observed)
                        stopped.append((running, finding.text))
        self._watched = watched
        return stopped

    def _find(
        self,
        running: AttemptState,
        known: _Watched,
        observed: ObservedUse,
        policy: HangPolicy,
        now: datetime,
    ) -> HangFinding | None:
        ranks = _ranks(running, observed, known, now)
        finding = find_hang(with_stacks(ranks, known.stacks), policy.stuck_after_s, now)
        if finding is None:
            if known.named is not None:
                run_log(running).info("Progress has resumed")
            known.found_at, known.named, known.stacks = None, None, {}
            return None
        is_new = known.found_at is None
        known.found_at = known.found_at or now
        is_missing = known.lacks_stacks(observed) and now - known.found_at < _STACKS_WITHIN
        if is_new or (is_missing and not known.is_being_named):
            known.is_being_named = True
            self._tasks.start_soon(self._name, running, known, ranks, observed, policy, now)
        return finding

    async def _name(
        self,
        running: AttemptState,
        known: _Watched,
        ranks: Sequence[RankState],
        observed: ObservedUse,
        policy: HangPolicy,
        now: datetime,
    ) -> None:
        """Say in its log and on its page which rank hangs, and where: again with more stacks."""
        found_at = known.found_at
        stacks = known.stacks | await self._stacks(running, observed.progress)
        known.is_being_named = False
        # No cycle is around this task: an error in it would end the worker.
        with self._attempts.faults.of_run(running, "named as hung", now):
            # The stacks may show another rank to be at fault.
            finding = find_hang(with_stacks(ranks, stacks), policy.stuck_after_s, now)
            if finding is None or known.found_at != found_at:
                return  # it has made progress meanwhile
            is_shown = known.named is not None and stacks.keys() == known.stacks.keys()
            known.stacks = stacks
            hourly = hourly_cost(running.record, running.attempt).micro_usd
            if known.named != (finding.kind, finding.ranks):
                known.named = (finding.kind, finding.ranks)
                run_log(running).warning("%s", hang_sentence(finding, hourly, now))
            if not is_shown:
                await self._show(running, finding, stacks, hourly, now)

    async def _stacks(
        self, running: AttemptState, progress: Sequence[ProgressReport]
    ) -> dict[int, str]:
        try:
            return dict(await self._infrastructure.stacks(running, progress))
        except Exception:  # it hangs all the same
            _log.warning(
                "Failed to read stack traces for flow run %r", running.record.name, exc_info=True
            )
            return {}

    async def _show(
        self,
        running: AttemptState,
        finding: HangFinding,
        stacks: Mapping[int, str],
        hourly_micro_usd: float | None,
        now: datetime,
    ) -> None:
        """On the run's page, as an artifact that is edited in place."""
        try:
            found = await find_artifact(self._client, HANG_KEY, running.flow_run_id)
            text = hang_markdown(finding, stacks, hourly_micro_usd, now)
            artifact = ArtifactCreate(
                key=HANG_KEY,
                type="markdown",
                description=finding.text,
                data=self._hidden(text),
                flow_run_id=UUID(running.flow_run_id),
            )
            await write_artifact(self._client, artifact, None if found is None else found.id)
        except Exception:  # its log says that it hangs
            _log.warning(
                "Failed to update the hang report for flow run %r",
                running.record.name,
                exc_info=True,
            )


def _ranks(
    running: AttemptState, observed: ObservedUse, known: _Watched, now: datetime
) -> list[RankState]:
    """The current state of each rank. Also learns the GPU activity between two steps."""
    return [_rank(running, report, observed, known, now) for report in observed.progress]


def _rank(
    running: AttemptState,
    report: ProgressReport,
    observed: ObservedUse,
    known: _Watched,
    now: datetime,
) -> RankState:
    load = None
    if observed.activity is not None:
        load = load_of(
            observed.activity,
            report.rank,
            report.ranks,
            now,
            gpu_id=report.gpu_id,
            in_rank_order=observed.has_rank_order,
        )
    level = known.levels.get(report.rank, WorkLevel())
    if load is not None and report.steps > known.steps.get(report.rank, report.steps):
        level = known.levels[report.rank] = level.with_load(load)
    known.steps[report.rank] = report.steps
    return RankState(
        rank=report.rank,
        node=_node_of(running, report, observed),
        gpu_id=report.gpu_id or _gpus_of(running.attempt.gpu_ids, report, observed),
        steps=report.steps,
        progressed_at=report.progressed_at,
        median_step_s=report.median_step_s,
        longest_step_s=report.longest_step_s,
        phase=report.phase,
        load=load,
        level=level,
        ranks=report.ranks,
    )


def _node_of(running: AttemptState, report: ProgressReport, observed: ObservedUse) -> str:
    """The node of the rank; all nodes of the attempt, where nothing says it."""
    node = None if report.node_rank is None else observed.nodes.get(report.node_rank)
    return node or running.attempt.node


def _faulty_nodes(finding: HangFinding, observed: ObservedUse) -> frozenset[str]:
    """Those of the ranks at fault; empty: one is unknown, or a rank that is silent may be it."""
    reports = {each.rank: each for each in observed.progress}
    if len(reports) < max(each.ranks for each in reports.values()):
        return frozenset()
    places = (reports[rank].node_rank for rank in finding.ranks)
    nodes = {None if place is None else observed.nodes.get(place) for place in places}
    known = frozenset(node for node in nodes if node is not None)
    return known if len(known) == len(nodes) else frozenset()


def _gpus_of(gpu_ids: Sequence[str], report: ProgressReport, observed: ObservedUse) -> str | None:
    """The GPU of the rank, by the order of the attempt's; all of them, where that says nothing.

    A cluster's are numbers of the plan, which are no ids of GPUs.
    """
    if not observed.has_rank_order:
        return None
    if len(gpu_ids) == report.ranks:
        return gpu_ids[report.rank]
    return ", ".join(gpu_ids) or None
