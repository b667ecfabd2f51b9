"""Flow runs by id: all of them, in as few requests as the server's pages allow."""

from uuid import UUID

import anyio
import pytest
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.states import Pending, Running, Scheduled

from gpu_core.adapters.prefect.flow_runs import read_flow_runs_by_id
from gpu_core.adapters.prefect.paging import PAGE

STATES = (Scheduled(), Pending(), Running())


class Server:
    """Has these runs, in states that alternate, and answers a page at most."""

    def __init__(self, count):
        self.runs = {
            UUID(int=n): FlowRun(id=UUID(int=n), flow_id=UUID(int=0), state=STATES[n % 3])
            for n in range(count)
        }
        self.requests = 0

    async def read_flow_runs(self, *, flow_run_filter, limit):
        assert limit <= PAGE
        self.requests += 1
        types = flow_run_filter.state and flow_run_filter.state.type
        found = [self.runs[key] for key in flow_run_filter.id.any_ if key in self.runs]
        if types and types.any_:
            found = [run for run in found if run.state.type in types.any_]
        if types and types.not_any_:
            found = [run for run in found if run.state.type not in types.not_any_]
        return found[:limit]


@pytest.mark.parametrize(
    ("count", "want_requests"), [(0, 0), (1, 1), (PAGE, 1), (PAGE + 1, 2), (3 * PAGE - 1, 3)]
)
def test_every_run_is_read_in_pages(count, want_requests):
    server = Server(count)
    found = anyio.run(read_flow_runs_by_id, server, map(str, server.runs))
    assert found == {str(key): run for key, run in server.runs.items()}
    assert server.requests == want_requests


def test_a_deleted_run_is_missing_and_so_is_one_whose_id_is_damaged():
    server, there, deleted = Server(2), str(UUID(int=1)), str(UUID(int=9))
    found = anyio.run(read_flow_runs_by_id, server, [there, deleted, "no uuid"])
    assert list(found) == [there]


@pytest.mark.parametrize(
    ("options", "want"),
    [
        pytest.param({"in_states": [StateType.SCHEDULED]}, {0, 3}, id="of one type"),
        pytest.param(
            {"not_in_states": [StateType.SCHEDULED, StateType.PENDING]}, {2, 5}, id="begun"
        ),
        pytest.param({}, set(range(6)), id="of any"),
    ],
)
def test_runs_are_chosen_by_the_type_of_their_state(options, want):
    server = Server(6)

    async def read():
        return await read_flow_runs_by_id(server, map(str, server.runs), **options)

    assert {UUID(key).int for key in anyio.run(read)} == want
