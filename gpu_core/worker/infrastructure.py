"""The scheduler's interface to the infrastructure, implemented once for each worker type.

The scheduler decides, the infrastructure carries out. It is asked about one attempt at a time and
may answer from what it has watched; it never decides what an end means.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

from prefect.workers.base import BaseJobConfiguration

from gpu_core.adapters.files.progress_report import ProgressReport
from gpu_core.adapters.files.run_files import Notice
from gpu_core.decisions.model.attempt_exit import Exit
from gpu_core.decisions.model.attempts import Attempt, EndReason
from gpu_core.decisions.model.cluster import Allocation, Node, Placement
from gpu_core.decisions.model.gpu_summary import GpuSummary
from gpu_core.decisions.model.host_summary import HostSummary
from gpu_core.decisions.model.measurements import Measurements
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.model.workload import Workload
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.requests.runs.run_context import RunContext
from gpu_core.decisions.telemetry.activity import RunActivity
from gpu_core.decisions.telemetry.history import GpuWindow
from gpu_core.decisions.telemetry.metrics import WorkerFacts
from gpu_core.worker.attempts.state import AttemptState


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The objects created for an attempt, as recorded in the ledger."""

    started_at: datetime
    identity: str
    """What Prefect keeps as the run's infrastructure."""
    pid: int | None = None
    pid_created_at: float | None = None
    infrastructure: str | None = None


class NotStarted(Exception):
    """Nothing was started, through no fault of the run: it goes back to its place in the queue."""


class Postponed(Exception):
    """Nothing was started, because there is no room for it now that we cannot see. The message
    says why, and what helps."""


class Unavailable(Exception):
    """Nothing was started, because the platform failed: a disk, a folder, an outside system. The
    message is a clause that says what."""


class Refused(Exception):
    """It can never be started as it is. The message says why, and what helps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminationRequest:
    """An attempt that cannot continue where it is."""

    reason: EndReason
    """What it is ended for; Refused: it can never start, and is ended at once."""
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """The actual place of an attempt planned on future nodes, or placed by another scheduler."""

    placement: Placement
    since: datetime
    node: Node | None = None
    """The first of its nodes, as it was seen last; None: nothing is known of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedUse:
    """The known GPU use of an attempt."""

    activity: RunActivity | None = None
    """None: it is not sampled, or its GPUs are virtual."""
    progress: tuple[ProgressReport, ...] = ()
    """Of each of its ranks that reports."""
    has_rank_order: bool = True
    """Whether its GPUs are in the order of its ranks."""
    nodes: Mapping[int, str] = field(default_factory=dict)
    """Of a gang, by the number of the node in it, from 0."""


class Infrastructure(Protocol):
    """The attempts of one pool, where they run."""

    @property
    def host(self) -> str:
        """Whose open attempts in the ledger this worker answers for."""
        ...

    @property
    def disk(self) -> Path | None:
        """The folder of this machine in which its attempts write; None: they run elsewhere."""
        ...

    @property
    def is_fixed(self) -> bool:
        """Are these all the nodes that will ever be there? Then what fits on none is refused."""
        ...

    @property
    def is_environment_private(self) -> bool:
        """May a run's variables hold secrets? Not where others read them, as in manifests."""
        ...

    def is_placed_as_planned(self, policy: Policy) -> bool:
        """Is an attempt on the nodes of its plan or on none? False: another scheduler places it."""
        ...

    @property
    def variable_names(self) -> frozenset[str]:
        """Job variables that only this infrastructure reads and that a template need not name."""
        ...

    @property
    def fitted_by(self) -> object:
        """What does `fitted` look at apart from its arguments and the pool's template?

        While that is equal, so is what it returns.
        """
        ...

    def fitted(
        self,
        workload: Workload,
        variables: Mapping[str, object],
        policy: Policy,
        flow_name: str,
        *,
        has_deployment: bool,
    ) -> Workload:
        """The workload with what it needs of a node apart from GPUs.

        Args:
            variables: The run's job variables.
            flow_name: The name of the run's flow.
            has_deployment: Whether the run is of a deployment.

        Raises:
            InvalidInput: A variable that only this infrastructure reads cannot be used.
        """
        ...

    def keep_fitted(self, flow_run_ids: Collection[str]) -> None:
        """Forget what `fitted` has read of all other runs: they wait no longer."""
        ...

    async def observe(self, policy: Policy, allocations: Sequence[Allocation]) -> tuple[Node, ...]:
        """Which nodes are there, without what others than our attempts use of them?"""
        ...

    def allocations(
        self, attempts: Sequence[AttemptState], policy: Policy
    ) -> tuple[Allocation, ...]:
        """What do these attempts hold, no GPU twice?

        Args:
            attempts: All that hold something.
            policy: Of the pool.
        """
        ...

    def binding(
        self, running: AttemptState, unsettled: Sequence[AttemptState], policy: Policy
    ) -> Binding | None:
        """Where is it, if that was not certain until now? None: it was, or it is not yet on all of
        its nodes.

        Args:
            running: It waits for nodes which are still to come, or for another scheduler.
            unsettled: All that are not settled, and it: they hold something, or have held it.
            policy: Of the pool.
        """
        ...

    def final_binding(
        self, running: AttemptState, unsettled: Sequence[AttemptState], policy: Policy
    ) -> Binding | None:
        """Was it on other nodes than are written down, or is it unknown where it was? None: no.

        Asked once nothing of it lives. Unlike `binding` it also answers where nothing is known of a
        node but its name, and where not all of its pods were seen on one.
        """
        ...

    async def context(self, running: AttemptState, context: RunContext) -> RunContext:
        """The same context, with what only this infrastructure knows."""
        ...

    async def start(
        self,
        running: AttemptState,
        configuration: BaseJobConfiguration,
        context: RunContext,
        environment: Mapping[str, str],
        policy: Policy,
    ) -> Started:
        """Create what runs the attempt. Creating it twice is creating it once.

        Args:
            environment: Variables for the run that its configuration and context do not have.

        Raises:
            NotStarted: It can be created another time.
            Unavailable: The platform failed.
            Refused: It can be created at no time.
            InvalidInput: The run asks for something that the infrastructure does not offer.
            Exception: It could not be created, for a reason that is the run's.
        """
        ...

    async def find(self, attempts: Sequence[Attempt]) -> Mapping[str, Started]:
        """What is there of these open attempts of an earlier worker, by attempt id?"""
        ...

    def watch(self, running: AttemptState) -> None:
        """Wake the cycle when the attempt ends."""
        ...

    def lives(self, running: AttemptState) -> bool:
        """Does its main process live, or will it?"""
        ...

    def trouble(
        self, running: AttemptState, policy: Policy, now: datetime
    ) -> TerminationRequest | None:
        """Is it in a place where it can never work, or not any more?"""
        ...

    async def reconcile(self, attempts: Sequence[AttemptState], policy: Policy) -> None:
        """Report to Prefect what these attempts cannot report themselves: states, logs, events."""
        ...

    async def refresh(self, attempts: Sequence[AttemptState]) -> None:
        """Read the newest checkpoint report of each of these attempts."""
        ...

    async def notify(self, running: AttemptState, notice: Notice) -> None:
        """Give the run notice that it will be stopped."""
        ...

    def sees_its_cancellation(self, running: AttemptState) -> bool:
        """Does Prefect run inside, which ends a run by itself that a person cancels?"""
        ...

    async def terminate(self, running: AttemptState) -> None:
        """Ask it to end: SIGTERM."""
        ...

    async def kill(self, running: AttemptState) -> bool:
        """End all of it at once. False: something of it lives, or that is unknown."""
        ...

    async def report_start(self, running: AttemptState) -> None:
        """Report to Prefect that an attempt that has ended had started, where nothing else did."""
        ...

    async def exit(self, running: AttemptState) -> Exit | None:
        """How did it end? None: nothing that saw it survived.

        Asked before its GPUs are free: the answer needs no system that may be unavailable.
        """
        ...

    def held_gpus(self, running: AttemptState) -> bool:
        """Did it hold GPUs at any time? Not where another scheduler never placed it."""
        ...

    def take_gpu_windows(self) -> tuple[GpuWindow, ...]:
        """The minutes of this machine's GPUs that have ended since the last call."""
        ...

    async def gpu_summaries(self, running: AttemptState) -> tuple[GpuSummary, ...]:
        """What did the attempt's GPUs do? Empty: that is unknown."""
        ...

    async def observed_use(self, running: AttemptState) -> ObservedUse:
        """How does it use its GPUs now? Nothing is decided from what is unknown."""
        ...

    def measurements(
        self,
        attempts: Sequence[AttemptState],
        nodes: Sequence[Node],
        allocations: Sequence[Allocation],
        policy: Policy,
        now: datetime,
    ) -> Measurements:
        """What may a plan read of the last minutes? Nothing, unless the policy says so.

        Args:
            attempts: All that hold something.
            nodes: Of the snapshot.
            allocations: Of the snapshot.
            policy: Of the pool.
            now: The time of the plan.
        """
        ...

    async def stacks(
        self, running: AttemptState, progress: Sequence[ProgressReport]
    ) -> Mapping[int, str]:
        """What do these ranks do at this moment? The stacks of those that dump them, by rank."""
        ...

    async def host_summary(self, running: AttemptState) -> HostSummary | None:
        """What did the attempt's processes take of their machine? None: that is unknown."""
        ...

    async def last_lines(self, running: AttemptState) -> tuple[str, ...]:
        """The end of what it wrote, of which nothing lives. Empty: it is lost, or its run's log
        has it already."""
        ...

    def record_event(self, running: AttemptState, reason: Reason | EndReason, note: str) -> None:
        """Note on what runs the attempt what happens to it, where there is such a place.

        Args:
            reason: The code of what happens to it.
            note: Sentences for a person.
        """
        ...

    def settled(self, running: AttemptState) -> None:
        """Forget an attempt whose end is in the ledger."""
        ...

    def with_devices(self, facts: WorkerFacts) -> WorkerFacts:
        """These facts, with what is known of the GPUs of this machine. Any thread may ask."""
        ...

    async def close(self) -> None:
        """Stop watching. Runs continue."""
        ...
