"""Closes attempts in the ledger, with what their GPUs and processes did."""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun

from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.ledger.database import UnloggedEnd
from gpu_core.adapters.prefect.flow_runs import read_parent
from gpu_core.decisions.model.gpu_summary import GpuSummary
from gpu_core.decisions.model.host_summary import HostSummary
from gpu_core.worker.attempts.ending import Ending
from gpu_core.worker.attempts.run_log import run_fields
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.infrastructure import Infrastructure
from gpu_core.worker.operations.outage_errors import is_outage
from gpu_core.worker.operations.threads import in_thread

_log = logging.getLogger("prefect.gpu.settler")


class AttemptCloser:
    """Writes the ends of attempts and of runs into the ledger.

    Args:
        client: Prefect's, which knows the parents of runs.
        ledger: The usage ledger.
        infrastructure: Knows what an attempt's GPUs and processes did.
        logs_costs: Whether the costs of what ends here are logged afterwards.
    """

    def __init__(
        self,
        client: PrefectClient,
        ledger: Ledger,
        infrastructure: Infrastructure,
        *,
        logs_costs: bool,
    ) -> None:
        self._client = client
        self._ledger = ledger
        self._infrastructure = infrastructure
        self._logs_costs = logs_costs

    async def close(self, running: AttemptState, ending: Ending, run: FlowRun | None) -> None:
        """Close an attempt with all that is known of it; one that did not end is withdrawn.

        Args:
            running: The attempt, of which nothing lives.
            ending: Its end.
            run: Its run as Prefect has it; None when it was deleted.
        """
        summaries = await self._gpu_summaries(running)
        host = await self._host_summary(running)
        parent = None if run is None else await self._parent(run)
        await in_thread(self._write, running, ending, summaries, host, parent)

    async def close_unmeasured(self, running: AttemptState, ending: Ending) -> None:
        """Close an attempt without asking what its GPUs did.

        Raises:
            UnknownAttempt: It is not in the ledger.
        """
        await in_thread(self._write, running, ending)

    async def finish_run(self, flow_run_id: str, final: str) -> None:
        """Write down the final state of a run, whose cost is final with it."""
        await in_thread(self._write_final, flow_run_id, final)

    def _write_final(self, flow_run_id: str, final: str) -> None:
        self._ledger.finish_run(flow_run_id, final, unlogged=self._unlogged())

    async def _gpu_summaries(self, running: AttemptState) -> tuple[GpuSummary, ...]:
        """The activity of its GPUs. Optional: an error is only logged."""
        try:
            return await self._infrastructure.gpu_summaries(running)
        except Exception:
            name, fields = running.record.name, run_fields(running)
            _log.warning(
                "Failed to read GPU usage for flow run %r", name, exc_info=True, extra=fields
            )
            return ()

    async def _host_summary(self, running: AttemptState) -> HostSummary | None:
        """The CPU and memory use of its processes. Optional: an error is only logged."""
        try:
            return await self._infrastructure.host_summary(running)
        except Exception:
            name, fields = running.record.name, run_fields(running)
            _log.warning(
                "Failed to read CPU usage for flow run %r", name, exc_info=True, extra=fields
            )
            return None

    async def _parent(self, run: FlowRun) -> str | None:
        """The run that started it. No end waits for it, unless Prefect's API is unavailable."""
        try:
            return await read_parent(self._client, run)
        except Exception as error:
            if is_outage(error):
                raise
            _log.warning("Failed to read the parent of flow run %r", run.name, exc_info=True)
            return None

    def _write(
        self,
        running: AttemptState,
        ending: Ending,
        summaries: Sequence[GpuSummary] = (),
        host: HostSummary | None = None,
        parent: str | None = None,
    ) -> None:
        attempt, report, settlement = running.attempt, running.report, ending.settlement
        if settlement.end_reason is None:
            self._ledger.withdraw_attempt(attempt.attempt_id)
            return
        self._ledger.close_attempt(
            attempt.attempt_id,
            released_at=ending.released_at,
            end_reason=settlement.end_reason,
            end_message=settlement.message,
            exit_code=ending.exit_code,
            is_charged_failure=settlement.is_charged_failure,
            is_end_estimated=ending.is_end_estimated,
            checkpoint=report.checkpoint if report is not None else None,
            checkpointed_at=report.saved_at if report is not None else None,
            restored_from=report.restored_from if report is not None else None,
            first_step_at=report.first_step_at if report is not None else None,
            expected_loss_s=report.expected_loss_s if report is not None else None,
            saves=report.saves if report is not None else None,
            save_stall_s=report.save_stall_s if report is not None else None,
            gpu_summaries=summaries,
            host_summary=host,
            parent_flow_run_id=parent,
            unlogged=self._unlogged(),
        )

    def _unlogged(self) -> UnloggedEnd | None:
        if not self._logs_costs:
            return None
        return UnloggedEnd(self._infrastructure.host, datetime.now(UTC))
