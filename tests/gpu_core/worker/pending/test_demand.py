"""What the runs of a pool's queue want."""

import copy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from uuid import UUID

import anyio
import pytest
from prefect.client.schemas.objects import Flow, FlowRun
from prefect.client.schemas.responses import DeploymentResponse

from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.policy.policy import Policy
from gpu_core.testing.builders.workloads import make_policy
from gpu_core.worker.pending.demand import DemandReader
from tests.support.queue import deployment_reader, queue_reader

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
POOL, QUEUE, FLOW = UUID(int=1), UUID(int=2), UUID(int=3)
IDS = [str(UUID(int=number)) for number in (11, 12, 13)]


class Server:
    """Has three runs in line, the last of which asks for what cannot be read."""

    async def request(self, _method, _path, **_options):
        return SimpleNamespace(json=lambda: [self._response(flow_run_id) for flow_run_id in IDS])

    async def read_work_queues(self, **_options):
        return [SimpleNamespace(id=QUEUE, name="medium")]

    async def read_flow(self, flow_id):
        return Flow(id=flow_id, name="train")

    def _response(self, flow_run_id):
        variables = {"gpu_count": -1} if flow_run_id == IDS[-1] else {"gpu_count": 1}
        run = {"id": flow_run_id, "flow_id": str(FLOW), "name": "run", "job_variables": variables}
        return {"work_pool_id": str(POOL), "work_queue_id": str(QUEUE), "flow_run": run}


def infrastructure(variable_names=(), keep_fitted=lambda _ids: None):
    """Takes every workload as it is."""
    return SimpleNamespace(
        variable_names=frozenset(variable_names),
        fitted=lambda workload, *_, **__: workload,
        fitted_by=None,
        keep_fitted=keep_fitted,
    )


def pending(server, policy=None, outdated=(), keep_fitted=lambda _ids: None):
    """What the runs that the server hands out want at noon."""
    anything = infrastructure({"container_command"}, keep_fitted)

    async def read():
        async with queue_reader(server, held=lambda: outdated) as queue:
            reading = await queue.newest()
        async with deployment_reader(server) as deployments:
            reader = DemandReader(server, "gpus", anything, deployments)
            return await reader.pending(reading, policy or Policy(version=1), {}, NOON)

    return anyio.run(read)


@pytest.mark.parametrize(
    ("held", "want_read", "want_refused"),
    [
        pytest.param((), IDS[:2], IDS[2:], id="no run has an attempt"),
        pytest.param(IDS[:1], IDS[1:2], IDS[2:], id="one is being started"),
        pytest.param(IDS, [], [], id="all are"),
    ],
)
def test_runs_whose_attempt_is_not_over_do_not_compete(held, want_read, want_refused):
    """They stay in the line as Prefect has it: they have not left it."""
    queue = pending(Server(), outdated=held)
    assert [demand.workload.workload_id for demand in queue.demands] == want_read
    assert [str(refusal.flow_run.id) for refusal in queue.refusals] == want_refused
    assert [str(flow_run_id) for flow_run_id in queue.responses] == IDS


def test_the_infrastructure_learns_which_runs_wait_and_may_forget_all_others():
    kept = []
    pending(Server(), keep_fitted=lambda ids: kept.append(list(ids)))
    assert kept == [IDS]


def test_a_variable_that_the_template_of_an_older_pool_lacks_is_known_all_the_same():
    class Newer(Server):
        def _response(self, flow_run_id):
            response = super()._response(flow_run_id)
            response["flow_run"]["job_variables"] = {"container_command": "true"}
            return response

    queue = pending(Newer())
    assert len(queue.demands) == len(IDS)


@pytest.mark.parametrize(
    ("env", "want"),
    [
        pytest.param([{"name": "A", "value": "1"}], None, id="a list"),
        pytest.param([{"value": "1"}], "env[0] has no name", id="an item without a name"),
        pytest.param(3, "env is no environment", id="a number"),
    ],
)
def test_what_is_no_environment_is_refused_when_the_run_is_read(env, want):
    class Odd(Server):
        def _response(self, flow_run_id):
            response = super()._response(flow_run_id)
            response["flow_run"]["job_variables"] = {"env": env}
            return response

    queue = pending(Odd())
    if want is None:
        assert [demand.variables["env"] for demand in queue.demands] == [env] * 3
    else:
        assert [want in str(refusal.error) for refusal in queue.refusals] == [True] * 3


def test_a_run_beyond_its_teams_permission_is_held_and_the_others_are_not():
    """At the first look, and at each one after it: the policy of that moment decides."""

    class Mixed(Server):
        def _response(self, flow_run_id):
            response = super()._response(flow_run_id)
            is_last = flow_run_id == IDS[-1]
            response["flow_run"]["job_variables"] = {"gpu_priority": "critical"} if is_last else {}
            return response

    policy = make_policy(permissions={"default": {"queues": ["medium"]}})
    queue = pending(Mixed(), policy)
    holds = [demand.workload.hold and demand.workload.hold.reason for demand in queue.demands]
    assert holds == [None, None, Reason.NOT_PERMITTED]
    queue = pending(Mixed())
    assert [demand.workload.hold for demand in queue.demands] == [None, None, None]


@pytest.mark.parametrize(
    ("change", "is_parsed_again"),
    [
        pytest.param(None, False, id="nothing"),
        pytest.param("run", True, id="the run's variables"),
        pytest.param("deployment", True, id="its deployment's"),
        pytest.param("template", True, id="the template's default"),
        pytest.param("state", False, id="the run's state"),
        pytest.param("queue", False, id="its queue"),
        pytest.param("policy", False, id="the policy"),
        pytest.param("nodes", False, id="what the nodes offer"),
    ],
)
def test_a_run_is_read_again_only_where_something_of_it_has_changed(change, is_parsed_again):
    run = FlowRun(flow_id=FLOW, deployment_id=UUID(int=5), job_variables={"gpu_count": 2})
    variables = {"team": "vision"}
    template = {"variables": {"properties": {"project": {"default": "a"}}}}
    anything = infrastructure()

    class Deployed(Server):
        async def read_deployment(self, deployment_id):
            return DeploymentResponse(
                id=deployment_id, name="d", flow_id=FLOW, job_variables=dict(variables)
            )

        async def read_deployments(self, **_filter):
            return [await self.read_deployment(run.deployment_id)]

    async def story():
        async with deployment_reader(Deployed()) as deployments:
            return await two_readings(deployments)

    async def two_readings(deployments):
        reader = DemandReader(Deployed(), "gpus", anything, deployments)
        policy = Policy(version=1)
        first = await reader.read(run, "medium", policy, template, NOON)
        then, again, queue = copy.deepcopy(template), run, "medium"
        if change == "run":
            again = run.model_copy(update={"job_variables": {"gpu_count": 3}})
        elif change == "deployment":
            variables["team"] = "nlp"
        elif change == "template":
            then["variables"]["properties"]["project"]["default"] = "b"
        elif change == "state":
            again = run.model_copy(update={"state_name": "Late"})
        elif change == "queue":
            queue = "high"
        elif change == "policy":
            policy = make_policy(permissions={"default": {"queues": ["high"]}})
        elif change == "nodes":
            anything.fitted_by = 2
            anything.fitted = lambda workload, *_, **__: replace(workload, name="fitted")
        await deployments.refresh()
        later = NOON + timedelta(minutes=1)
        second = await reader.read(again, queue, policy, then, later)
        assert second is await reader.read(again, queue, policy, then, later)
        return first, second

    first, second = anyio.run(story)
    assert (first is second) == (change is None)
    assert (first.workload is second.workload) == (change in (None, "state"))
    assert (first.variables is not second.variables) == is_parsed_again
    assert (first.request is not second.request) == is_parsed_again
    assert second.flow_run.state_name == ("Late" if change == "state" else None)
    assert (second.workload.hold is not None) == (change == "policy")
    assert second.workload.queue == ("high" if change == "queue" else "medium")
    assert (second.workload.name == "fitted") == (change == "nodes")
    asked = (second.request.gpu_count, second.request.team, second.request.project)
    assert asked == (
        3 if change == "run" else 2,
        "nlp" if change == "deployment" else "vision",
        "b" if change == "template" else "a",
    )
