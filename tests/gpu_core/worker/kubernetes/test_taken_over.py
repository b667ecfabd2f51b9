"""A running attempt is judged by what it was started with, whatever its deployment says by now."""

import copy
from datetime import UTC, datetime
from types import SimpleNamespace
from uuid import UUID

import anyio
import pytest
from prefect.client.schemas.objects import Flow, FlowRun
from prefect.client.schemas.responses import DeploymentResponse
from prefect.exceptions import ObjectNotFound

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.cluster import NodeShare, Placement
from gpu_core.testing.builders.workloads import make_policy
from gpu_core.worker import GpuKubernetesWorker
from gpu_core.worker.attempts.recovery import Recovery
from gpu_core.worker.attempts.registry import AttemptRegistry
from gpu_core.worker.kubernetes.jobs.attempt_request import is_container_job
from gpu_core.worker.pending.demand import DemandReader
from tests.gpu_core.worker.kubernetes.of_cluster import of_cluster
from tests.support.queue import fixed_deployments

ID = UUID(int=1)
RUN = str(ID)
NOW = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
POLICY = make_policy()
TORCHRUN = {"container_command": "train.py", "framework": "torchrun", "nodes": 2, "gpu_count": 1}


class Server:
    """Has one run of one deployment in one pool, all of which may be edited."""

    def __init__(self, of_deployment, of_template):
        self.deployment = of_deployment
        self.template = copy.deepcopy(GpuKubernetesWorker.get_default_base_job_template())
        self.set_defaults(of_template)
        self.has_run = True

    def set_defaults(self, values):
        for name, value in values.items():
            self.template["variables"]["properties"][name]["default"] = value

    async def read_deployment(self, _id):
        return DeploymentResponse(id=ID, name="d", flow_id=ID, job_variables=self.deployment)

    async def read_flow(self, _id):
        return Flow(id=ID, name="train")

    async def read_flow_run(self, flow_run_id):
        if not self.has_run:
            raise ObjectNotFound(Exception(flow_run_id))
        return FlowRun(id=flow_run_id, flow_id=ID, deployment_id=ID, name="run", job_variables={})


async def _nothing(_attempts):
    return {}


def placed(nodes):
    shares = tuple(NodeShare(node=f"n{n}", gpu_ids=("0",)) for n in range(nodes))
    return Placement(gpu_type="a10g", capacity_type="on-demand", shares=shares)


def taken_over(server, ledger, folder, change, forget=False):
    """The attempt as another worker takes it over, after this change of the server."""
    infrastructure = of_cluster(SimpleNamespace(), template=lambda: server.template)
    infrastructure.find = _nothing

    async def story():
        def reader():
            return DemandReader(server, "gpus", infrastructure, fixed_deployments(server))

        run = await server.read_flow_run(ID)
        demand = await reader().read(run, "medium", POLICY, server.template, NOW)
        first = AttemptRegistry("gpus", "host-1", folder, ledger)
        placement = placed(demand.workload.shape.nodes)
        await first.open({RUN: placement}, {RUN: demand}, {}, POLICY, NOW)
        if forget:
            with ledger._writer.begin() as connection:
                connection.exec_driver_sql("UPDATE attempts SET job_variables = NULL")
        change(server)
        second = AttemptRegistry("gpus", "host-1", folder, ledger)
        recovery = Recovery(second, ledger, server, reader(), infrastructure)
        await recovery.recover(POLICY, server.template)
        return second.of_run(RUN)

    return anyio.run(story)


def lose_command(server):
    server.deployment = {"gpu_count": 1}


def lose_framework(server):
    server.deployment = {"container_command": "train.py", "gpu_count": 1}


def change_template(server):
    server.set_defaults({"container_command": None, "framework": "none", "max_failures": 9})


def break_deployment(server):
    server.deployment = {"gpu_count": "many", "framework": "rai"}


def lose_run(server):
    server.has_run = False
    lose_command(server)


@pytest.mark.parametrize(
    ("of_deployment", "of_template", "change"),
    [
        pytest.param(TORCHRUN, {}, lose_command, id="the deployment lost its command"),
        pytest.param(TORCHRUN, {}, lose_framework, id="the deployment has another framework"),
        pytest.param(TORCHRUN, {}, break_deployment, id="the deployment cannot be read"),
        pytest.param(TORCHRUN, {}, lose_run, id="the run was deleted"),
        pytest.param(
            {"nodes": 2, "gpu_count": 1},
            {"container_command": "train.py", "framework": "torchrun"},
            change_template,
            id="the pool's template lost its command",
        ),
    ],
)
def test_a_container_job_stays_one(tmp_path, of_deployment, of_template, change):
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        running = taken_over(Server(of_deployment, of_template), ledger, tmp_path, change)
    assert is_container_job(running)
    assert running.workload.shape.nodes == 2
    assert running.limits.max_failures == POLICY.limits.max_failures


def give_command(server):
    server.deployment = {**TORCHRUN, "max_failures": 9}


def test_a_flow_stays_one(tmp_path):
    server = Server({"gpu_count": 1, "max_failures": 2}, {})
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        running = taken_over(server, ledger, tmp_path, give_command)
    assert not is_container_job(running)
    assert (running.workload.shape.nodes, running.limits.max_failures) == (1, 2)


def use_refused_field(server):
    server.deployment = {**TORCHRUN, "backoff_limit": 3}


def test_what_a_version_before_began_keeps_its_kind_where_its_variables_are_refused_by_now(
    tmp_path,
):
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        server = Server(TORCHRUN, {})
        running = taken_over(server, ledger, tmp_path, use_refused_field, forget=True)
    assert is_container_job(running)
    assert running.workload.shape.nodes == 2
    assert not running.workload.is_preemptible


def test_the_ledger_has_them_while_the_attempt_is_open_and_never_a_secret(tmp_path):
    address = "s3://bucket/checkpoints?token=secret"
    server = Server(
        {**TORCHRUN, "env": {"TOKEN": "secret"}, "checkpoint_uri": address}, {"team": "vision"}
    )
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        running = taken_over(server, ledger, tmp_path, lambda _: None)
        (attempt,) = ledger.open_attempts("gpus", "host-1")
        assert attempt.job_variables.items() >= {**TORCHRUN, "team": "vision"}.items()
        assert "secret" not in str(attempt)
        assert ledger.close_attempt(
            running.attempt.attempt_id,
            released_at=NOW,
            end_reason=EndReason.COMPLETED,
            end_message=None,
            exit_code=0,
            is_charged_failure=False,
        )
        (closed,) = ledger.attempts_of([RUN])[RUN]
    assert closed.job_variables is None
