"""Who starts when, on which GPUs, and the reason of a run that cannot start."""

from itertools import pairwise

from gpu_core.decisions.model.attempts import EndReason
from tests.end_to_end.conftest import FLOWS, POLICY
from tests.support.waiting import wait_for

GPUS = 8


def most_gpus_at_once(entries):
    """How many different GPUs were in use at the busiest moment? Fails if one was used twice."""
    held, most = {}, 0
    for entry in entries:
        key = (entry["run"], entry["attempt"])
        if entry["what"] == "begin":
            taken = {device for devices in held.values() for device in devices}
            assert not taken & set(entry["devices"]), f"used twice: {entry}"
            held[key] = entry["devices"]
        elif entry["what"] == "end":
            del held[key]
        most = max(most, sum(len(devices) for devices in held.values()))
    return most


def test_thirty_runs_share_eight_gpus_in_order_of_priority(pool, journal):
    """All complete, no GPU is used twice at a time, and urgent runs start before others."""
    deployments = {
        queue: pool.deploy(f"{FLOWS}:do_nothing", queue, **journal.variables(seconds=0.5))
        for queue in ("low", "medium", "high")
    }
    runs = {
        pool.submit(deployments[queue], f"{queue}-{number}", gpu_count=gpu_count, preemptible=False)
        : (queue, number)
        for queue, gpu_count in (("low", 1), ("medium", 2), ("high", 4))
        for number in range(10)
    }  # fmt: skip

    pool.start_worker()
    wait_for(lambda: len(journal.entries("end")) == len(runs), "all runs ended", timeout_s=150)
    for run in runs:
        pool.wait_until(run, "Completed")

    assert most_gpus_at_once(journal.entries()) <= GPUS
    # On one node with equal requests the order within a queue is that of submission. Processes that
    # start at the same time may begin in any order.
    ordered = [run for queue in ("high", "medium", "low") for run in runs if runs[run][0] == queue]
    admitted = {run: pool.attempts(run)[0].admitted_at for run in runs}
    overtaken = [(runs[a], runs[b]) for a, b in pairwise(ordered) if admitted[a] > admitted[b]]
    assert not overtaken


def test_a_real_flow_runs_with_its_gpus_and_its_cost_is_written_down(pool):
    """Prefect's own process runs the flow; the ledger has its attempt with times and price."""
    pool.start_worker()
    run = pool.submit(pool.deploy(f"{FLOWS}:do_nothing"), "nothing", gpu_count=2, team="research")

    pool.wait_until(run, "Completed")
    wait_for(lambda: pool.attempts(run)[0].released_at, "the attempt is closed")

    (attempt,) = pool.attempts(run)
    assert attempt.end_reason is EndReason.COMPLETED
    assert attempt.gpu_count == 2
    assert attempt.price_micro_usd_per_gpu_hour == 3_600_000
    assert attempt.admitted_at < attempt.started_at < attempt.released_at


def test_a_waiting_run_says_why_on_its_page(pool, journal):
    """The reason, its numbers and what would help stand in the state's message."""
    deployment = pool.deploy(f"{FLOWS}:do_nothing", **journal.variables(seconds=600))
    first = pool.submit(deployment, "first", gpu_count=6)
    pool.start_worker()
    pool.wait_until(first, "Running")

    second = pool.submit(deployment, "second", gpu_count=4)
    third = pool.submit(deployment, "third", gpu_count=1)

    pool.wait_until(second, "WaitingForGpus")
    message = pool.message(second)
    assert message.startswith("Waiting for 4 GPUs")
    assert "2 of 8 are free" in message
    assert "'first' holds 6" in message
    # Two GPUs are free, but they are kept for the run that is ahead in the line.
    pool.wait_until(third, "BehindOthers")
    # The log of the run's page says why, too, once for each reason; the state also has the place.
    wait_for(lambda: pool.logs(third), "the log says why it waits")
    (line,) = pool.logs(third)
    why, _, place = pool.message(third).partition(" Position ")
    assert line == f"BehindOthers: {why}"
    assert place.startswith("2 in the queue")

    lines = pool.call("POST", "/artifacts/filter", {"artifacts": {"type": {"any_": ["table"]}}})
    (line,) = [a for a in lines if a["key"] == f"gpu-queue-{pool.name}"]
    assert [row["Run"] for row in line["data"]] == ["second", "third"]


def test_a_run_in_an_unknown_queue_is_held_and_says_so(pool, journal):
    """A misspelled queue makes a new one in Prefect; its runs wait for a person."""
    deployment = pool.deploy(f"{FLOWS}:do_nothing", "hihg", **journal.variables(seconds=0))
    held = pool.submit(deployment, "held")
    pool.start_worker()

    pool.wait_until(held, "UnknownQueue")

    assert "'high'" in pool.message(held)


def test_a_run_beyond_its_teams_permission_waits_until_the_policy_permits_it(new_pool, journal):
    """Its page says what is too much and where the limit stands; others go on."""
    limits = "{queues: [medium], max_gpus_per_run: 2}"
    pool = new_pool(f"{POLICY}permissions: {{default: {limits}}}\n")
    deployment = pool.deploy(f"{FLOWS}:do_nothing", **journal.variables(seconds=0))
    greedy = pool.submit(deployment, "greedy", gpu_count=4, gpu_priority="critical", team="vision")
    modest = pool.submit(deployment, "modest", gpu_count=2, team="vision")
    pool.start_worker()

    pool.wait_until(modest, "Completed")
    pool.wait_until(greedy, "NotPermitted")
    assert pool.message(greedy).startswith(
        "Held: a run of team 'vision' is not permitted to have the priority of the queue "
        "'critical' (allowed: medium), or to use 4 GPUs (at most 2)."
    )
    assert "permissions.default" in pool.message(greedy)
    pool.policy_path.write_text(POLICY)
    pool.wait_until(greedy, "Completed")


def test_a_run_without_gpus_starts_while_all_gpus_are_taken(pool, journal):
    """`gpu_count: 0` never waits."""
    deployment = pool.deploy(f"{FLOWS}:do_nothing", **journal.variables(seconds=600))
    busy = pool.submit(deployment, "busy", gpu_count=8)
    pool.start_worker()
    pool.wait_until(busy, "Running")

    report = pool.submit(
        pool.deploy(f"{FLOWS}:do_nothing", **journal.variables(seconds=0)), "report", gpu_count=0
    )

    pool.wait_until(report, "Completed")
    assert pool.state(busy) == "Running"


def test_no_run_is_preempted_for_one_that_its_deployment_does_not_let_start(pool, journal):
    """Prefect would refuse it after its victims had gone, every half a minute again."""
    low = pool.deploy(f"{FLOWS}:do_nothing", "low", **journal.variables(seconds=600))
    limited = pool.deploy(f"{FLOWS}:do_nothing", "critical", **journal.variables(seconds=600))
    pool.call("PATCH", f"/deployments/{limited}", {"concurrency_limit": 1})
    first = pool.submit(limited, "first", gpu_count=2)
    pool.start_worker()
    pool.wait_until(first, "Running")
    victim = pool.submit(low, "victim", gpu_count=6)
    pool.wait_until(victim, "Running")

    second = pool.submit(limited, "second", gpu_count=6)

    pool.wait_until(second, "DeploymentLimit")
    assert [attempt.drain_reason for attempt in pool.attempts(victim)] == [None]
