"""`prefect-gpu setup` on a real server: what it makes, and that repeating it changes nothing."""

import subprocess
import sys
from collections.abc import Mapping


def setup(environment: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpu_core.cli", "setup", *arguments],
        env=dict(environment), capture_output=True, text=True, check=False,
    )  # fmt: skip


def run_setup(environment: Mapping[str, str], *arguments: str, pool: str = "gpu") -> dict[str, str]:
    """Run the command; the mark of each object that it names."""
    done = setup(environment, "--pool", pool, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.strip() for line in done.stdout.splitlines() if line.startswith("  ")]
    return {line[2:].split(":")[0]: line[0] for line in lines}


def test_setup_makes_what_is_missing_and_repeats_without_a_change(prefect_on_sqlite, tmp_path):
    """Pool, queues in their order, blocks and deployments; edits made in the UI are kept."""
    environment = {
        **prefect_on_sqlite.environment,
        "PREFECT_INTEGRATIONS_GPU_STATE_DIR": str(tmp_path / "gpu"),
    }

    first = run_setup(environment, "--checkpoint-uri", str(tmp_path / "checkpoints"))
    with prefect_on_sqlite.client() as http:
        http.patch("/work_pools/gpu/queues/low", json={"priority": 2}).raise_for_status()
        template = http.get("/work_pools/gpu").json()["base_job_template"]
        template["variables"]["properties"]["gpu_count"]["default"] = 4
        del template["variables"]["properties"]["gpu_memory_gib"]
        http.patch("/work_pools/gpu", json={"base_job_template": template}).raise_for_status()
    again = run_setup(environment, "--checkpoint-uri", str(tmp_path / "elsewhere"))
    with prefect_on_sqlite.client() as http:
        after = http.get("/work_pools/gpu").json()["base_job_template"]["variables"]["properties"]
        queues = http.post("/work_pools/gpu/queues/filter", json={}).json()

    made = {name for name, mark in first.items() if mark == "+"}
    assert {"work pool gpu", "work queue critical", "work queue low"} <= made
    assert {"block gpu-usage-ledger/default", "block gpu-checkpoint-store/default"} <= made
    assert {"deployment train-digits/research", "deployment report-cost/nightly"} <= made
    assert first["block gpu-mlflow-tracking/default"] == "!"
    # What was changed behind its back, or is now asked for, is mended; all else is left alone.
    mended = {name for name, mark in again.items() if mark == "~"}
    assert {"work pool gpu", "work queue low", "block gpu-checkpoint-store/default"} <= mended
    assert {name: mark for name, mark in again.items() if name.startswith("deployment ")} == {
        name: "=" for name in made if name.startswith("deployment ")
    }
    assert again["block gpu-usage-ledger/default"] == "="
    assert next(queue for queue in queues if queue["name"] == "low")["priority"] == 4
    assert after["gpu_count"]["default"] == 4
    assert "gpu_memory_gib" in after


def test_a_clusters_pool_gets_its_namespace_and_image_and_no_folders_of_this_machine(
    prefect_on_postgresql, tmp_path
):
    environment = prefect_on_postgresql.environment
    # Without deployments, which are set up as for any pool.
    nothing = ("--prefect-file", str(tmp_path / "none.yaml"))
    cluster = ("--type", "gpu-kubernetes", "--namespace", "prefect-gpu", *nothing)

    first = run_setup(environment, *cluster, "--image", "train:1", pool="cluster")
    newer = run_setup(environment, *cluster, "--image", "train:2", pool="cluster")
    again = run_setup(environment, *cluster, pool="cluster")
    with prefect_on_postgresql.client() as http:
        template = http.get("/work_pools/cluster").json()["base_job_template"]
    refused = setup(environment, "--pool", "machine", "--image", "train:1", *nothing)

    assert [done["work pool cluster"] for done in (first, newer, again)] == ["+", "~", "="]
    assert first["block gpu-usage-ledger/default"] == "!"
    assert first["block gpu-checkpoint-store/default"] == "!"
    properties = template["variables"]["properties"]
    assert properties["namespace"]["default"] == "prefect-gpu"
    assert properties["image"]["default"] == "train:2"
    assert refused.returncode == 2
    assert "image is not a variable of a pool of type gpu-process" in refused.stderr
