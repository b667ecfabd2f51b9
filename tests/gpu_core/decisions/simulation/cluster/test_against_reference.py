"""The engine and planner against a scheduler of thirty lines that shares nothing with them."""

import heapq

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_core.decisions.scheduling.cycle.planner import Planner
from gpu_core.decisions.simulation.cluster.engine import simulate
from gpu_core.decisions.simulation.cluster.run_time_oracle import TrueRunTimes
from gpu_core.decisions.simulation.cluster.trace import Trace, TraceJob
from gpu_core.decisions.simulation.policies.named_policies import named_policy
from gpu_core.testing.builders.workloads import make_node
from tests.support.examples import examples

GPUS = 8


def reference_starts_s(jobs: list[TraceJob], *, shortest_first: bool) -> dict[str, float]:
    """When each job starts: a strict line, all GPUs alike, finishes before arrivals."""
    free, starts = GPUS, {}
    line: list[tuple[float, float, int]] = []
    running: list[tuple[float, int]] = []
    arrivals = sorted(range(len(jobs)), key=lambda i: jobs[i].submit_s)[::-1]
    while arrivals or running:
        now_s = min([jobs[i].submit_s for i in arrivals[-1:]] + [end_s for end_s, _ in running[:1]])
        while running and running[0][0] == now_s:
            free += heapq.heappop(running)[1]
        while arrivals and jobs[arrivals[-1]].submit_s == now_s:
            i = arrivals.pop()
            first = jobs[i].duration_s if shortest_first else 0
            heapq.heappush(line, (first, jobs[i].submit_s, i))
        while line and jobs[line[0][2]].gpu_count <= free:
            job = jobs[heapq.heappop(line)[2]]
            free -= job.gpu_count
            starts[job.job_id] = now_s
            heapq.heappush(running, (now_s + job.duration_s, job.gpu_count))
    return starts


jobs_of_any_size = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 30), st.integers(1, GPUS)), max_size=25
)


@pytest.mark.parametrize("policy", ["fifo", "sjf"])
@settings(deadline=None, max_examples=examples(60))
@given(rows=jobs_of_any_size)
def test_every_job_starts_when_the_reference_starts_it(
    policy: str, rows: list[tuple[int, int, int]]
) -> None:
    """Exactly then, for any arrivals, durations and sizes."""
    jobs = [
        TraceJob(job_id=f"{i:03}", submit_s=submit, duration_s=duration, gpu_count=gpus)
        for i, (submit, duration, gpus) in enumerate(rows)
    ]
    trace = Trace(jobs=tuple(jobs), nodes=(make_node("n", GPUS),))
    simulation = simulate(trace, Planner(named_policy(policy), trace.nodes), TrueRunTimes())
    starts = {o.job.job_id: o.attempts[0].start_s for o in simulation.outcomes}
    assert starts == reference_starts_s(jobs, shortest_first=policy == "sjf")
