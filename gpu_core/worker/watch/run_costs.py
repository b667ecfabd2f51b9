"""Logs the costs of ended attempts to MLflow; none is lost while MLflow is unavailable."""

import logging
from collections.abc import Awaitable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple, Protocol

import anyio
from anyio.abc import TaskGroup

from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.mlflow.probe import MlflowUnreachable, is_server, probe_mlflow
from gpu_core.decisions.costs.mlflow.mlflow_access import MlflowAccess
from gpu_core.decisions.costs.mlflow.mlflow_views import MlflowPages
from gpu_core.decisions.costs.mlflow.unlogged_cost import UnloggedCost
from gpu_core.decisions.costs.usage.usage import sum_usage
from gpu_core.decisions.costs.usage.usage_cost import price_book, run_cost
from gpu_core.decisions.model.attempts import Attempt, RunRecord
from gpu_core.decisions.model.units import count
from gpu_core.worker.operations.threads import in_abandonable_thread, in_thread
from gpu_core.worker.operations.throttle import LastSaid

_log = logging.getLogger("prefect.gpu.mlflow")

_RETRY_S = 60.0
_REFUSED_RETRY_S = 600.0


class LoggedCost(NamedTuple):
    """A run whose cost MLflow has."""

    run: RunRecord
    attempts: tuple[Attempt, ...]
    pages: MlflowPages | None
    """None: people can open none of it."""


class ShowPages(Protocol):
    """Shows on a run's page in Prefect where it is in MLflow."""

    def __call__(
        self, flow_run_id: str, attempts: Sequence[Attempt], *, mlflow: MlflowPages | None = None
    ) -> Awaitable[object]:
        """Show it."""
        ...


class RunCosts:
    """Logs the costs that the ledger lists as unlogged, the one that waits longest first.

    Nothing waits for it. While MLflow is away, costs stay in the ledger's list, over restarts of
    the worker too, and one request a minute asks whether it is back. Logging a cost twice changes
    nothing.

    Args:
        ledger: Has the list, the attempts and their prices.
        mlflow: Where costs are logged, and as whom.
        pool: Whose runs they are.
        host: The host that this worker acts for.
        show: Called with a run that is over, to link to its pages.
    """

    def __init__(
        self, ledger: Ledger, mlflow: MlflowAccess, pool: str, host: str, show: ShowPages
    ) -> None:
        self._ledger = ledger
        self._mlflow = mlflow
        self._pool = pool
        self._host = host
        self._show = show
        self._news = anyio.Event()
        # MLflow that hangs costs one thread, and none of those that the cycle uses.
        self._threads = anyio.CapacityLimiter(1)
        self._failure = LastSaid()
        self._refused_s: dict[str, float] = {}

    def wake(self) -> None:
        """The ledger has listed a cost."""
        self._news.set()

    async def run(self) -> None:
        """Log costs until it is cancelled."""
        while True:
            self._news = anyio.Event()
            await self.log_waiting(datetime.now(UTC))
            with anyio.move_on_after(_RETRY_S):
                await self._news.wait()

    async def log_waiting(self, now: datetime) -> None:
        """Log the costs that wait, up to the first one at which MLflow turns out to be away."""
        waiting: Sequence[UnloggedCost] = ()
        try:
            found = await in_thread(self._ledger.unlogged_costs, self._pool, self._host, now)
            waiting = [cost for cost in found if self._is_due(cost)]
            if not waiting:
                return
            await self._expect_answer()
            for cost in waiting:
                await self._log(cost)
        except Exception as error:
            if self._failure.is_news(_name(error)):
                what = count(len(waiting), "run")
                _log.warning(
                    "Failed to log the cost of %s to MLflow: %s. Retrying within %.0f seconds.",
                    *(what, _name(error), _RETRY_S),
                )
            _log.debug("The error of MLflow", exc_info=True)
        else:
            self._failure.forget()

    def _is_due(self, cost: UnloggedCost) -> bool:
        since_s = self._refused_s.get(cost.change_id)
        return since_s is None or anyio.current_time() - since_s >= _REFUSED_RETRY_S

    async def _log(self, cost: UnloggedCost) -> None:
        """Log one. One that MLflow does not take while it answers keeps no other from being logged.

        Raises:
            Exception: MLflow or the ledger is away.
        """
        flow_run_id = cost.flow_run_id
        try:
            logged = await in_abandonable_thread(
                self._threads, log_cost, self._mlflow, self._ledger, flow_run_id
            )
        except Exception as error:
            await self._expect_answer()
            self._set_aside(cost, error)
            return
        self._refused_s.pop(cost.change_id, None)
        await in_thread(self._ledger.note_logged, cost)
        if logged is not None and logged.pages is not None and logged.run.final_state is not None:
            await self._show_pages(logged)

    async def _expect_answer(self) -> None:
        await in_abandonable_thread(self._threads, expect_answer, self._mlflow)

    def _set_aside(self, cost: UnloggedCost, error: Exception) -> None:
        if cost.change_id not in self._refused_s:
            _log.warning(
                "Failed to log the cost of flow run %s to MLflow: %s. Retrying every %.0f minutes.",
                *(cost.flow_run_id, _name(error), _REFUSED_RETRY_S / 60),
                extra={"flow_run_id": cost.flow_run_id},
            )
            _log.debug("The error of MLflow", exc_info=error)
        self._refused_s[cost.change_id] = anyio.current_time()

    async def _show_pages(self, logged: LoggedCost) -> None:
        flow_run_id = logged.run.flow_run_id
        try:
            await self._show(flow_run_id, logged.attempts, mlflow=logged.pages)
        except Exception:
            _log.warning(
                "Failed to link flow run %r to MLflow",
                logged.run.name,
                exc_info=True,
                extra={"flow_run_id": flow_run_id},
            )


def log_cost(mlflow: MlflowAccess, ledger: Ledger, flow_run_id: str) -> LoggedCost | None:
    """Log to MLflow what the run cost until now, and what the runs that it started cost.

    None: it held no GPUs and started no runs, and nothing is logged.

    Raises:
        MlflowException: MLflow cannot be reached, or refuses.
    """
    # MLflow takes seconds to import, and Prefect imports the worker for every command.
    from gpu_core.adapters.mlflow.client import mlflow_client
    from gpu_core.adapters.mlflow.cost import cost_status, log_run_cost
    from gpu_core.adapters.mlflow.pages import pages_of

    now, family = datetime.now(UTC), ledger.family_of(flow_run_id)
    attempts = {run.flow_run_id: of_run for run, of_run in family}
    costs = {run.flow_run_id: run_cost(run, of_run, now) for run, of_run in family}
    cost = costs.pop(flow_run_id, None)
    if cost is None or not (cost.held_gpus or costs):
        return None
    client = mlflow_client(mlflow)
    run_id = log_run_cost(
        client,
        cost.run,
        cost,
        status=cost_status(cost),
        price_book=price_book(attempts[flow_run_id]),
        bill=ledger.run_bills([flow_run_id]).get(flow_run_id),
        children=sum_usage(child.usage for child in costs.values()) if costs else None,
    )
    return LoggedCost(cost.run, attempts[flow_run_id], pages_of(client, mlflow, run_id))


def expect_answer(mlflow: MlflowAccess) -> None:
    """Ask one question, of a server without the retries of MLflow's client, which take minutes.

    Raises:
        MlflowUnreachable: Nothing answers, or the server takes no requests of ours.
        MlflowException: The database cannot be read.
    """
    if is_server(mlflow):
        status = probe_mlflow(mlflow).status
        if status >= 400:
            raise MlflowUnreachable(f"it returned HTTP {status}")
        return
    from gpu_core.adapters.mlflow.client import mlflow_client

    mlflow_client(mlflow).search_experiments(max_results=1)


def _name(error: Exception) -> str:
    """The error without its text, in which a server may repeat what it was sent."""
    return " ".join(filter(None, (type(error).__name__, getattr(error, "error_code", None))))


def start_run_costs(
    ledger: Ledger,
    mlflow: MlflowAccess | None,
    pool: str,
    host: str,
    show: ShowPages,
    tasks: TaskGroup,
) -> RunCosts | None:
    """The writer of the costs of ended attempts, including those of an earlier worker.

    Args:
        ledger: Which costs are unlogged.
        mlflow: Where they are logged; None: nowhere, and nothing is started.
        pool: Of the worker.
        host: Of the worker.
        show: Shows the attempts of a run on its page.
        tasks: Where the writer runs.
    """
    if mlflow is None:
        return None
    costs = RunCosts(ledger, mlflow, pool, host, show)
    tasks.start_soon(costs.run)
    return costs
