"""The runs of the quickstart: several priorities, one preemption, exact resumption, their cost."""

import asyncio
import json
import textwrap
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import UUID

from mlflow import MlflowClient
from mlflow.entities import Run
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.objects import Artifact, FlowRun
from rich.console import Console
from rich.markdown import Markdown
from rich.padding import Padding
from rich.text import Text

from gpu_core.adapters.checkpoints.open_store import open_store
from gpu_core.adapters.files.policy_file import load_policy
from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.prefect.artifacts import find_artifact
from gpu_core.adapters.prefect.flow_runs import read_flow_runs_by_id
from gpu_core.cli.quickstart.attempt_table import attempt_table
from gpu_core.cli.quickstart.progress import WaitIndicator
from gpu_core.cli.quickstart.run_table import run_table
from gpu_core.cli.quickstart.services import Addresses, ServiceError, Services
from gpu_core.cli.shared.tables import print_table
from gpu_core.decisions.checkpoints.object_names import committed
from gpu_core.decisions.costs.anomalies.report.daily_report import artifact_keys
from gpu_core.decisions.costs.mlflow.mlflow_views import view_link
from gpu_core.decisions.costs.reports.demo_history import (
    QUICKSTART_DAY,
    QUICKSTART_DAYS,
    quickstart_history,
)
from gpu_core.decisions.costs.usage.usage_cost import RunCost, run_cost
from gpu_core.decisions.model.attempts import Attempt, EndReason
from gpu_core.decisions.model.units import count
from gpu_core.worker.process.gpus.devices import local_nodes

_LOOK_S = 0.5
_LONGEST_S = 600.0
_SAME = ("test_accuracy", "test_log_loss", "final_train_loss")
_NAME_WIDTH = 22
# Two blanks, seconds and two more before the name, and one behind it.
_INDENT = 11 + _NAME_WIDTH + 1
# What every run goes through: the reason why it waits, its start and its end say more.
_NOT_PRINTED = frozenset({"Scheduled", "Late", "Pending", "AwaitingRetry"})


@dataclass(slots=True)
class _Seen:
    """The lines that were printed about a run."""

    name: str
    state: str = ""
    """The name of its last state."""
    printed: set[str] = field(default_factory=set)
    """The reasons of this wait: each is printed once, not each time its numbers change."""


def play_story(
    console: Console, services: Services, folder: Path, addresses: Addresses, *, keep: bool
) -> bool:
    """Submit the runs, follow them and check them. True if everything was as it should be."""
    return asyncio.run(_Story(console, services, folder, addresses, keep=keep).play())


class _Story:
    def __init__(
        self,
        console: Console,
        services: Services,
        folder: Path,
        addresses: Addresses,
        *,
        keep: bool,
    ) -> None:
        self._console = console
        self._keep = keep
        self._services = services
        self._addresses = addresses
        self._store = open_store(str(folder / "checkpoints"))
        self._ledger_url = f"sqlite:///{folder / 'ledger.db'}"
        self._seen: dict[UUID, _Seen] = {}
        self._began = time.monotonic()

    async def play(self) -> bool:
        gpus = self._gpus()
        async with get_client() as client:
            self._client: PrefectClient = client
            self._console.rule("[bold]3. Running workloads[/]", align="left")
            with WaitIndicator(self._console, "Submitting flow runs") as self._progress:
                training, twin = await self._submit_all(gpus)
                await self._until_finished()
            self._console.rule("[bold]4. Verifying the resumed training run[/]", align="left")
            is_right = self._check(training, twin)
            self._console.rule("[bold]5. Nightly report[/]", align="left")
            with WaitIndicator(self._console, "Generating the nightly report") as self._progress:
                nightly, was_reported = await self._report()
            is_right = was_reported and is_right
            self._console.rule("[bold]6. Cost summary[/]", align="left")
            costs = self._costs()
            print_table(run_table(costs), self._console)
            print_table(attempt_table(costs), self._console)
            await self._print_addresses(training, twin, nightly)
        return is_right

    def _gpus(self) -> int:
        nodes = local_nodes(load_policy(Path("deployments/policy.yaml")))
        if not nodes:
            raise ServiceError(
                "No GPUs found. Please install an NVIDIA driver or configure `virtual_gpus` in "
                "deployments/policy.yaml"
            )
        node = max(nodes, key=lambda node: len(node.gpu_ids))
        kind = "virtual GPUs" if node.gpu_ids[0].startswith("virtual-") else "GPUs"
        self._console.print(f"  {len(node.gpu_ids)} {kind} of type {node.gpu_type}")
        return len(node.gpu_ids)

    async def _submit_all(self, gpus: int) -> tuple[UUID, UUID]:
        half, quarter = max(1, gpus // 2), max(1, gpus // 4)
        training = await self._submit(
            "train-digits/research",
            "train-512",
            "low-priority training, preemptible",
            gpu_count=half,
        )
        twin = await self._submit(
            "train-digits/research",
            "train-512-undisturbed",
            "identical training, not preemptible",
            gpu_count=quarter,
            preemptible=False,
        )
        for number in (1, 2, 3):
            await self._submit(
                "classify-digits/batch", f"classify-{number}", "batch inference",
                parameters={"seed": number}, gpu_count=1,
            )  # fmt: skip
        await self._submit(
            "train-digits/research",
            "train-128",
            "training with different hyperparameters",
            parameters={"hidden_units": 128, "learning_rate": 0.002},
            gpu_count=quarter,
        )
        await self._until(lambda: self._has_saved(training))
        await self._submit(
            "classify-digits/urgent", "urgent", "critical-priority inference", gpu_count=half
        )
        return training, twin

    async def _submit(
        self,
        deployment: str,
        name: str,
        what: str,
        parameters: dict[str, Any] | None = None,
        **variables: Any,
    ) -> UUID:
        found = await self._client.read_deployment_by_name(deployment)
        run = await self._client.create_flow_run_from_deployment(
            found.id, name=name, parameters=parameters or {}, job_variables=variables
        )
        self._seen[run.id] = _Seen(name)
        self._say(
            name, f"submitted to {deployment}, {count(variables['gpu_count'], 'GPU')}: {what}"
        )
        return run.id

    # -- following -------------------------------------------------------------------------------

    async def _until_finished(self) -> None:
        async def is_finished() -> bool:
            runs = await self._look()
            is_over = all(run.state is not None and run.state.is_final() for run in runs)
            # The ledger closes an attempt when its last process is gone, a moment later.
            return is_over and all(
                attempt.released_at is not None
                for cost in self._costs()
                for attempt in cost.attempts
            )

        await self._until(is_finished)

    async def _has_saved(self, flow_run_id: UUID) -> bool:
        run = next(run for run in await self._look() if run.id == flow_run_id)
        if run.state is not None and run.state.is_final():
            raise ServiceError(f"{run.name} finished before it could be preempted: {run.state}")
        return bool(committed(self._store.names(str(flow_run_id))))

    async def _until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        deadline = time.monotonic() + _LONGEST_S
        while not await condition():
            self._services.check()
            if time.monotonic() > deadline:
                raise ServiceError(
                    f"Timed out after {_LONGEST_S:.0f} seconds while waiting for "
                    "the flow runs to finish"
                )
            await asyncio.sleep(_LOOK_S)

    async def _look(self) -> list[FlowRun]:
        runs = [*(await read_flow_runs_by_id(self._client, map(str, self._seen))).values()]
        for run in runs:
            if run.state is None:
                continue
            seen = self._seen[run.id]
            state = run.state.name or run.state.type.value
            if state != seen.state and state not in _NOT_PRINTED | seen.printed:
                self._say(run.name, self._described(run, state, run.state.message))
            # A new attempt begins: what it waits for after that is news again.
            seen.printed = {state} if state == "Running" else seen.printed | {state}
            seen.state = state
        running = sorted(seen.name for seen in self._seen.values() if seen.state == "Running")
        starting = sorted(seen.name for seen in self._seen.values() if seen.state == "Pending")
        ended = sum(run.state is not None and run.state.is_final() for run in runs)
        self._progress.update(
            f"{ended} of {count(len(runs), 'run')} finished"
            + (f"; starting: {', '.join(starting)}" if starting else "")
            + (f"; running: {', '.join(running)}" if running else "")
        )
        return runs

    def _described(self, run: FlowRun, state: str, message: str | None) -> str:
        if state != "Running":
            return f"{state}: {message}" if message else state
        with Ledger.open(self._ledger_url) as ledger:
            attempts = ledger.attempts_of([str(run.id)])[str(run.id)]
        if not attempts or not attempts[-1].gpu_ids:
            return state
        attempt = attempts[-1]
        numbers = ", ".join(gpu_id.removeprefix("virtual-") for gpu_id in attempt.gpu_ids)
        resumed = ", resumed from checkpoint" if attempt.number > 1 else ""
        return f"Running: attempt {attempt.number} on GPU {numbers}{resumed}"

    # -- checking --------------------------------------------------------------------------------

    def _check(self, training: UUID, twin: UUID) -> bool:
        attempts = {cost.run.flow_run_id: cost.attempts for cost in self._costs()}
        mine, other = attempts[str(training)], attempts[str(twin)]
        return all(
            [
                self._verdict("the training run was preempted once", _was_preempted_once(mine)),
                self._verdict(
                    "the second attempt was restored from a checkpoint", _was_resumed(mine)
                ),
                self._verdict("the reference run completed in a single attempt", len(other) == 1),
                *self._same_results(training, twin),
                self._verdict("all flow runs completed successfully", self._all_completed()),
            ]
        )

    def _same_results(self, training: UUID, twin: UUID) -> list[bool]:
        client = MlflowClient(self._addresses.mlflow)
        mine, other = (_mlflow_run(client, flow_run_id) for flow_run_id in (training, twin))
        verdicts = [
            self._verdict(
                f"{name}: {mine.data.metrics[name]!r} and {other.data.metrics[name]!r}",
                mine.data.metrics[name] == other.data.metrics[name],
            )
            for name in _SAME
        ]
        weights = [run.data.tags["weights_sha256"] for run in (mine, other)]
        short = " and ".join(digest[:12] for digest in weights)
        verdicts.append(self._verdict(f"weights: {short}", weights[0] == weights[1]))
        return verdicts

    def _all_completed(self) -> bool:
        return all(seen.state == "Completed" for seen in self._seen.values())

    def _verdict(self, text: str, is_right: bool) -> bool:
        self._console.print(f"  {'[green]yes[/]' if is_right else '[bold red]NO[/] '} {text}")
        return is_right

    # -- the nightly report ----------------------------------------------------------------------

    async def _report(self) -> tuple[UUID, bool]:
        """Report two days. Returns the run of the generated one, and whether all went well."""
        with Ledger.open(self._ledger_url) as ledger:
            added = ledger.import_records(quickstart_history())
        self._console.print(
            f"  Added {added} generated attempts to the ledger for the {QUICKSTART_DAYS} days "
            f"up to {QUICKSTART_DAY}"
        )
        # The generated day has an anomaly to find; today has the runs of this quickstart.
        generated = await self._submit_report(
            "report-generated", QUICKSTART_DAY, with_generated=True
        )
        today = await self._submit_report(
            "report-today", datetime.now(UTC).date(), with_generated=False
        )
        await self._until_finished()
        self._print_report(await self._page(generated, with_generated=True))
        self._print_report(await self._page(today, with_generated=False), paragraphs=2)
        are_complete = [self._seen[run].state == "Completed" for run in (generated, today)]
        return generated, all(are_complete)

    async def _submit_report(self, name: str, day: date, *, with_generated: bool) -> UUID:
        found = await self._client.read_deployment_by_name("report-cost/nightly")
        run = await self._client.create_flow_run_from_deployment(
            found.id,
            name=name,
            parameters={"day": day.isoformat(), "with_generated": with_generated},
        )
        self._seen[run.id] = _Seen(name)
        return run.id

    def _print_report(self, page: Artifact, *, paragraphs: int | None = None) -> None:
        """The first paragraphs of the report, or all before its tables, which are for the page."""
        top = str(page.data).split("\n## Cost per day", maxsplit=1)[0].strip()
        shown = "\n\n".join(top.split("\n\n")[:paragraphs])
        self._console.print(Padding(Markdown(shown), (0, 2)))
        self._progress.printed()

    async def _page(self, flow_run_id: UUID, *, with_generated: bool) -> Artifact:
        """The report that this run published."""
        return await self._artifact(
            flow_run_id, artifact_keys(with_generated=with_generated).report
        )

    async def _artifact(self, flow_run_id: UUID, key: str) -> Artifact:
        """The newest artifact of a run under this key."""
        found = await find_artifact(self._client, key, str(flow_run_id))
        if found is None:
            raise ServiceError(f"{self._seen[flow_run_id].name} did not create the artifact {key}")
        return found

    # -- the end ---------------------------------------------------------------------------------

    def _costs(self) -> list[RunCost]:
        now = datetime.now(UTC)
        ids = [str(flow_run_id) for flow_run_id in self._seen]
        with Ledger.open(self._ledger_url) as ledger:
            attempts = ledger.attempts_of(ids)
            records = [ledger.run(flow_run_id) for flow_run_id in ids]
        return [
            run_cost(record, attempts.get(record.flow_run_id, ()), now)
            for record in records
            if record is not None
        ]

    async def _print_addresses(self, training: UUID, twin: UUID, nightly: UUID) -> None:
        prefect, mlflow = self._addresses.prefect, self._addresses.mlflow
        report = await self._page(nightly, with_generated=True)
        runs = [_mlflow_run(MlflowClient(mlflow), run) for run in (training, twin)]
        compared = quote(json.dumps([run.info.run_id for run in runs]))
        experiments = quote(json.dumps([runs[0].info.experiment_id]))
        addresses = {
            "Preempted flow run": f"{prefect}/runs/flow-run/{training}",
            "Nightly report": f"{prefect}/artifacts/artifact/{report.id}",
            "Training comparison": (
                f"{mlflow}/#/compare-runs?runs={compared}&experiments={experiments}"
            ),
            "Cost and quality": view_link(mlflow, runs[0].info.experiment_id),
        }
        self._console.print()
        for name, address in addresses.items():
            self._console.print(f"  {name:<20} {address}", soft_wrap=True)
        if not self._keep:
            self._console.print("  To keep these pages available, run: KEEP=1 make quickstart")
        self._console.print("\nTo run your own flow on GPUs, see docs/getting-started.md.")

    def _say(self, name: str, text: str) -> None:
        elapsed_s = time.monotonic() - self._began
        first, *rest = textwrap.wrap(
            text, self._console.width - _INDENT, max_lines=3, placeholder=" ..."
        )
        line = Text.assemble(f"  {elapsed_s:6.1f}s  ", (f"{name:<{_NAME_WIDTH}} ", "bold"), first)
        self._console.print(line)
        for more in rest:
            self._console.print(f"{'':<{_INDENT}}{more}")
        self._progress.printed()


def _was_preempted_once(attempts: tuple[Attempt, ...]) -> bool:
    return [attempt.end_reason for attempt in attempts] == [
        EndReason.PREEMPTED,
        EndReason.COMPLETED,
    ]


def _was_resumed(attempts: tuple[Attempt, ...]) -> bool:
    return len(attempts) == 2 and attempts[1].restored_from is not None


def _mlflow_run(client: MlflowClient, flow_run_id: UUID) -> Run:
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    runs = client.search_runs(experiments, f"tags.`prefect.flow_run_id` = '{flow_run_id}'")
    if len(runs) != 1:
        raise ServiceError(
            f"Expected one MLflow run for flow run {flow_run_id}, but found {len(runs)}"
        )
    return runs[0]
