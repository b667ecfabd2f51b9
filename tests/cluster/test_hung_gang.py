"""A gang in pods that hangs: its page says which rank, where and how, and it resumes elsewhere."""

import re
import sys
from collections.abc import Iterator

import pytest

from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.telemetry.hung_training_markdown import HANG_KEY
from tests.cluster.hung_gang import HANGS_AFTER
from tests.cluster.test_rendezvous import policy_of
from tests.support.cluster import Cluster, kubernetes
from tests.support.prefect_stack import ENGINE
from tests.support.waiting import wait_for

# Stacks are taken after two minutes without a step, as of every run whose steps are shorter.
HANGS = "hangs: {action: restart, stuck_after: 2m}\n"
SAID = re.compile(
    r"No progress for .* after step \d+: rank 1 on (\S+) \((\S+)\) is waiting with no work "
    r"running, 1 other rank waits for it, .*The time without progress cost (\$\d+\.\d+)"
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster with a node more than the gang needs."""
    nodes = (f"--node=gang-node-{number}" for number in (1, 2, 3))
    with kubernetes("--gpus=1", *nodes) as running:
        yield running


def test_a_gang_that_hangs_in_one_rank_is_named_with_all_stacks_and_resumes_elsewhere(
    new_pool, namespace, cluster
):
    # A rank that hangs makes no use of its notice.
    policy = policy_of(cluster).replace("grace_period: 20s", "grace_period: 5s")
    pool = new_pool(policy + HANGS)
    pool.start_worker()
    run = pool.submit(
        pool.deploy("tests/cluster/flows.py:lead_a_gang_that_hangs", **ENGINE),
        "a gang",
        nodes=2,
        gpu_count=1,
        max_failures=2,
        container_command=f"{sys.executable} -m tests.cluster.hung_gang",
    )
    of_run = f"--selector=prefect-gpu.dev/flow-run-id={run},prefect-gpu.dev/attempt=1"

    def nodes_of_ranks():
        pods = sorted(namespace.get("pods", of_run)["items"], key=lambda p: p["metadata"]["name"])
        return [pod["spec"].get("nodeName") for pod in pods]

    wait_for(lambda: len(nodes_of_ranks()) == 2 and all(nodes_of_ranks()), "both are placed")
    nodes = nodes_of_ranks()
    wait_for(lambda: len(pool.attempts(run)) == 2, "it is restarted", timeout_s=900)
    pool.wait_until(run, "Completed", timeout_s=600)
    wait_for(lambda: all(a.released_at for a in pool.attempts(run)), "all is settled")

    hung, second = pool.attempts(run)
    assert (hung.end_reason, hung.is_charged_failure) == (EndReason.HUNG, True)
    assert second.restored_from == hung.checkpoint is not None
    assert {share.node for share in hung.held} == {*nodes}
    assert nodes[1] not in {share.node for share in second.held}

    (page,) = pool.call(
        "POST",
        "/artifacts/filter",
        {"artifacts": {"key": {"any_": [HANG_KEY]}, "flow_run_id": {"any_": [run]}}},
    )
    print(page["data"])
    node, gpu_id, cost = SAID.search(page["data"]).groups()
    assert (node, gpu_id) == (nodes[1], "GPU-of-rank-1")
    assert float(cost[1:]) > 0
    stacks = dict(re.findall(r"Rank (\d), the innermost[^`]*```\n(.*?)\n```", page["data"], re.S))
    assert "in read_a_batch" in stacks["1"]
    assert "in all_gather" in stacks["0"]
    assert f"after step {HANGS_AFTER}" in page["data"]
    assert any(SAID.search(line) for line in pool.logs(run))
