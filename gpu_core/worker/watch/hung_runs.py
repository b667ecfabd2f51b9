"""Runs that make no progress: their pages say which rank hangs, and by policy they restart."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import anyio
from anyio.abc import TaskGroup
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import ArtifactCreate

from gpu_core.adapters.files.progress_report import ProgressReport
from gpu_core.adapters.prefect.artifacts import find_artifact, write_artifact
from gpu_core.decisions.policy.hangs import HangPolicy
from gpu_core.decisions.telemetry.hang_markdown import HANG_KEY, hang_markdown, hang_sentence
from gpu_core.decisions.telemetry.hangs import (
    HangFinding,
    RankState,
    WorkLevel,
    find_hang,
    load_of,
    with_stacks,
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


@dataclass(slots=True)
class _Watched:
    """The recorded progress of an attempt."""

    levels: dict[int, WorkLevel]
    steps: dict[int, int]
    found_at: datetime | None = None
    """Since when it hangs; None: it makes progress."""
    is_named: bool = False
    """Its log says so: it does once the stacks are taken."""


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
        """Which attempts hang now, by attempt id?"""
        found = (key for key, watched in self._watched.items() if watched.found_at is not None)
        return frozenset(found)

    async def hanging(self, policy: HangPolicy, now: datetime) -> list[tuple[AttemptState, str]]:
        """Which attempts are to be restarted because they hang, and why? Also names them."""
        if policy.action == "off" or not self._turns.allows(anyio.current_time()):
            return []
        stopped, watched = [], {}
        for running in self._attempts:
            if not running.phase.is_up:
                continue
            attempt_id = running.attempt.attempt_id
            known = watched[attempt_id] = self._watched.get(attempt_id) or _Watched({}, {})
            with self._attempts.faults.of_run(running, "judged by its progress", now):
                finding = await self._find(running, known, policy, now)
                if finding is not None and policy.action == "restart":
                    found_at = known.found_at or now
                    if now - found_at >= _SURE_AFTER:
                        stopped.append((running, finding.text))
        self._watched = watched
        return stopped

    async def _find(
        self, running: AttemptState, known: _Watched, policy: HangPolicy, now: datetime
    ) -> HangFinding | None:
        observed = await self._infrastructure.observed_use(running)
        ranks = _ranks(running, observed, known, now)
        finding = find_hang(ranks, policy.stuck_after_s, now)
        if finding is None:
            known.found_at = None
            if known.is_named:
                known.is_named = False
                run_log(running).info("It makes progress again")
        elif known.found_at is None:
            known.found_at = now
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
        """Say in its log and on its page which rank hangs, and where."""
        stacks = await self._stacks(running, observed.progress)
        # No cycle is around this task: an error in it would end the worker.
        with self._attempts.faults.of_run(running, "named as hung", now):
            # The stacks may show another rank to be at fault.
            finding = find_hang(with_stacks(ranks, stacks), policy.stuck_after_s, now)
            if finding is None or known.found_at != now:
                return  # it has made progress meanwhile
            hourly = hourly_cost(running.record, running.attempt).micro_usd
            known.is_named = True
            run_log(running).warning("%s", hang_sentence(finding, hourly, now))
            await self._show(running, finding, stacks, hourly, now)

    async def _stacks(
        self, running: AttemptState, progress: Sequence[ProgressReport]
    ) -> dict[int, str]:
        try:
            return dict(await self._infrastructure.stacks(running, progress))
        except Exception:  # it hangs all the same
            _log.warning("The stacks of %r are not taken", running.record.name, exc_info=True)
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
            _log.warning("The hang of %r is not on its page", running.record.name, exc_info=True)


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
        node=running.attempt.node,
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


def _gpus_of(gpu_ids: Sequence[str], report: ProgressReport, observed: ObservedUse) -> str | None:
    """Which GPU has the rank, by the order of the attempt's? All of them, where that says nothing.

    A cluster's are numbers of the plan, which are no ids of GPUs.
    """
    if not observed.has_rank_order:
        return None
    if len(gpu_ids) == report.ranks:
        return gpu_ids[report.rank]
    return ", ".join(gpu_ids) or None
