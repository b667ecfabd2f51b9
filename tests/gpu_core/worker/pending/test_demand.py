"""Which runs of a pool's line are read."""

import copy
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from uuid import UUID

import anyio
import pytest
from prefect.client.schemas.objects import Flow

from gpu_core.adapters.prefect.paging import PAGE
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


class Long(Server):
    """Has a line of so many runs, due one second after the other, and counts what it is asked."""

    def __init__(self, runs):
        self.rows = [self._response(str(UUID(int=100 + number))) for number in range(runs)]
        for number, row in enumerate(self.rows):
            due = NOON - timedelta(seconds=1_000 - number)
            row["flow_run"]["next_scheduled_start_time"] = due.isoformat()
        self.asked = []

    async def request(self, _method, _path, *, json, **_options):
        self.asked.append(json.get("scheduled_after"))
        after = datetime.fromisoformat(json.get("scheduled_after", "1970-01-01T00:00:00+00:00"))
        due = [row for row in copy.deepcopy(self.rows) if due_at(row) >= after]
        return SimpleNamespace(json=lambda: due[:PAGE])


def due_at(row):
    return datetime.fromisoformat(row["flow_run"]["next_scheduled_start_time"])


def polled(server, reader):
    async def poll():
        server.asked.clear()
        queue = await reader.pending(Policy(version=1), {}, NOON, ())
        return list(queue.responses.values()), len(server.asked)

    return anyio.run(poll)


def test_a_run_that_waits_is_parsed_again_only_where_prefect_says_something_else_of_it():
    server = Long(3)
    reader = reader_of(server)
    first, _ = polled(server, reader)
    server.rows[1]["flow_run"]["job_variables"] = {"gpu_count": 2}
    gone = server.rows.pop(2)
    second, _ = polled(server, reader)
    assert [before is after for before, after in zip(first, second, strict=False)] == [True, False]
    assert second[1].flow_run.job_variables == {"gpu_count": 2}
    server.rows.append(gone)
    third, _ = polled(server, reader)
    assert len(third) == 3
    assert third[2] is not first[2], "what has left the line is forgotten"


def test_a_long_line_is_not_asked_for_in_one_page_again_and_a_short_one_is():
    server = Long(2 * PAGE)
    reader = reader_of(server)
    first, requests = polled(server, reader)
    again, fewer = polled(server, reader)
    assert len(first) == len(again) == 2 * PAGE
    assert fewer == requests - 1
    del server.rows[3:]
    assert [len(polled(server, reader)[0]) for _ in range(2)] == [3, 3]
    assert polled(server, reader)[1] == 1
