"""A worker's structured log: what an operator's log store gets of a run, from queue to end."""

import json

from tests.end_to_end.conftest import FLOWS, closed
from tests.support.waiting import wait_for

# Prefect's command prints them itself, on stdout.
_OF_THE_COMMAND = ("Received SIG", "Worker '")


def test_each_line_is_json_and_a_run_is_found_from_queue_to_end(pool, journal, tmp_path):
    pool.environment["PREFECT_INTEGRATIONS_GPU_LOG_FORMAT"] = "json"
    deployment = pool.deploy(f"{FLOWS}:do_nothing")
    release = tmp_path / "release"
    first = pool.submit(deployment, "first", gpu_count=8, **journal.variables(120, release))
    pool.start_worker()
    pool.wait_until(first, "Running")
    second = pool.submit(deployment, "second", gpu_count=3, **journal.variables())
    wait_for(lambda: pool.state(second) == "WaitingForGpus", "it waits")
    release.touch()
    pool.wait_until(second, "Completed")
    wait_for(lambda: closed(pool, second, 1), "its attempt is closed")
    pool.stop_worker()

    lines = [
        json.loads(line)
        for line in pool.worker_log().splitlines()
        if not line.startswith(_OF_THE_COMMAND)
    ]
    assert {line["pool"] for line in lines} == {pool.name}
    assert {line["level"] for line in lines} <= {"INFO", "WARNING"}
    of_second = [line for line in lines if line.get("flow_run_id") == second]
    (node,) = {share.node for share in pool.attempts(second)[0].held}
    assert [
        (line["reason"], line.get("attempt"), line.get("node"))
        for line in of_second
        if "reason" in line
    ] == [("WaitingForGpus", None, None), ("Starting", 1, node), ("Completed", 1, node)]
    cycles = [line for line in lines if line["logger"] == "prefect.gpu.cycle"]
    assert sum(line["started"] for line in cycles) == 2
    waits = next(line for line in cycles if line["pending"])
    assert (waits["running"], waits["gpus_used"], waits["gpus_free"]) == (1, 8, 0)
    works = next(line for line in cycles if line["gpus_used"] == 3)
    assert (works["pending"], works["running"], works["gpus_free"]) == (0, 1, 5)
