"""Runs that wait for a node which is still to come, on a real cluster."""

from tests.cluster.pools import FLOWS, POLICY
from tests.support.waiting import wait_for

PROVISIONED = """
  provisioner: karpenter
  provisioned:
    - {name: l4s, gpu_type: l4, gpus_per_node: 4, max_nodes: 1}
"""
L4 = ("--gpus=4", "--gpu-product=NVIDIA-L4", "--gpu-memory-mib=23034", "--gpu-name=l4",
      "--instance-type=g6.12xlarge", "--name=late")  # fmt: skip


def test_a_run_waits_for_a_node_and_holds_gpus_of_it_when_it_comes(cluster, new_pool):
    pool = new_pool(POLICY.replace("pending_timeout: 20s", "pending_timeout: 10m") + PROVISIONED)
    pool.start_worker()
    run = pool.submit(
        pool.deploy(f"{FLOWS}:do_nothing"),
        "patient",
        gpu_type="l4",
        gpu_count=2,
        container_command="/bin/sh -c 'sleep 300'",
    )

    def says(text):
        return lambda: any(text in line for line in pool.logs(run))

    wait_for(says("is waiting for a new node (l4s)"), "it waits", timeout_s=180)
    (waiting,) = pool.attempts(run)
    assert (waiting.node, waiting.price_micro_usd_per_gpu_hour) == ("new/l4s/0", 0)
    state = pool.run(run)["state"]
    assert state["type"] == "PENDING"
    assert state["message"].startswith("Attempt 1 is waiting for a new node (l4s) with 2 × l4")

    with cluster.simulated_nodes(1, *L4):
        wait_for(says("Its node joined the cluster"), "it is on the node", timeout_s=180)
        (there,) = pool.attempts(run)
        assert (there.node, there.gpu_ids, there.zone) == ("late-0", ("0", "1"), "us-east-1a")
        assert there.released_at is None
        assert there.admitted_at > waiting.admitted_at


def test_a_run_whose_node_does_not_come_says_so_and_goes_on_waiting(new_pool):
    pool = new_pool(POLICY + PROVISIONED)
    pool.start_worker()
    run = pool.submit(
        pool.deploy(f"{FLOWS}:do_nothing"), "in vain", gpu_type="l4", container_command="/bin/true"
    )
    wait_for(
        lambda: sum("is waiting for a new node" in line for line in pool.logs(run)) == 2,
        "it waits again, because there is no other kind",
        timeout_s=180,
    )
    first, second = pool.attempts(run)
    assert first.end_reason == "Interrupted"
    assert first.end_message is not None
    assert "No node became available within 20s" in first.end_message
    assert (second.node, second.released_at) == ("new/l4s/0", None)
