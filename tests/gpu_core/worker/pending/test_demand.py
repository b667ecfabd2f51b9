"""Which runs of a pool's line are read."""

from datetime import UTC, datetime
from types import SimpleNamespace
from uuid import UUID

import anyio
import pytest
from prefect.client.schemas.objects import Flow

from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.policy.policy import Policy
from gpu_core.testing.builders.workloads import make_policy
from gpu_core.worker.pending.demand import DemandReader

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


def reader_of(server, turn=None):
    turn = turn or anyio.Lock()
    anything = SimpleNamespace(
        variable_names=frozenset({"container_command"}), fitted=lambda workload, *_, **__: workload
    )
    return DemandReader(server, "gpus", (), anything, turn)


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
    queue = anyio.run(reader_of(Server()).pending, Policy(version=1), {}, NOON, held)
    assert [demand.workload.workload_id for demand in queue.demands] == want_read
    assert [str(refusal.flow_run.id) for refusal in queue.refusals] == want_refused
    assert [str(flow_run_id) for flow_run_id in queue.responses] == IDS


def test_a_variable_that_the_template_of_an_older_pool_lacks_is_known_all_the_same():
    class Newer(Server):
        def _response(self, flow_run_id):
            response = super()._response(flow_run_id)
            response["flow_run"]["job_variables"] = {"container_command": "true"}
            return response

    queue = anyio.run(reader_of(Newer()).pending, Policy(version=1), {}, NOON, ())
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

    queue = anyio.run(reader_of(Odd()).pending, Policy(version=1), {}, NOON, ())
    if want is None:
        assert [demand.variables["env"] for demand in queue.demands] == [env] * 3
    else:
        assert [want in str(refusal.error) for refusal in queue.refusals] == [True] * 3


def test_the_line_is_not_read_while_a_run_in_it_is_written_to():
    """PostgreSQL would leave that run out, and a later one would overtake it."""

    async def story():
        turn, happened = anyio.Lock(), []
        reader = reader_of(Server(), turn)

        async def read():
            queue = await reader.pending(Policy(version=1), {}, NOON, ())
            happened.append(f"{len(queue.responses)} read")

        async with anyio.create_task_group() as group, turn:
            group.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            happened.append("written")
        return happened

    assert anyio.run(story) == ["written", "3 read"]


def test_a_run_beyond_its_teams_permission_is_held_and_the_others_are_not():
    """At the first look, and at each one after it: the policy of that moment decides."""

    class Mixed(Server):
        def _response(self, flow_run_id):
            response = super()._response(flow_run_id)
            is_last = flow_run_id == IDS[-1]
            response["flow_run"]["job_variables"] = {"gpu_priority": "critical"} if is_last else {}
            return response

    policy = make_policy(permissions={"default": {"queues": ["medium"]}})
    queue = anyio.run(reader_of(Mixed()).pending, policy, {}, NOON, ())
    holds = [demand.workload.hold and demand.workload.hold.reason for demand in queue.demands]
    assert holds == [None, None, Reason.NOT_PERMITTED]
    queue = anyio.run(reader_of(Mixed()).pending, Policy(version=1), {}, NOON, ())
    assert [demand.workload.hold for demand in queue.demands] == [None, None, None]
