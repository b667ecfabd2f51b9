"""`prefect-gpu setup` on a real server: what it makes, and that repeating it changes nothing."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.prefect_stack import PrefectServer
from tests.support.preloaded import run

ROOT = Path(__file__).parents[2]

FLOW = """
from prefect import flow

@flow
def train(epochs: int = 1): ...
"""
PROJECT = """
deployments:
  - name: {name}
    entrypoint: train.py:train
    work_pool: {{name: {pool}, work_queue_name: low, job_variables: {{gpu_count: 2}}}}
"""


def setup(
    environment: Mapping[str, str], *arguments: str, folder: Path = ROOT, is_new: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run the command; `is_new`: by an interpreter that has imported nothing."""
    if not is_new:
        return run("prefect-gpu", ("setup", *arguments), environment, folder)
    return subprocess.run(
        [sys.executable, "-P", "-m", "gpu_core.cli", "setup", *arguments],
        env=dict(environment), cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


def run_setup(
    environment: Mapping[str, str],
    *arguments: str,
    pool: str = "gpu",
    folder: Path = ROOT,
    is_new: bool = False,
) -> dict[str, str]:
    """Run the command; the mark of each object that it names."""
    done = setup(environment, "--pool", pool, *arguments, folder=folder, is_new=is_new)
    assert done.returncode == 0, done.stdout + done.stderr
    marked = tuple(f"  {mark} " for mark in "+~=!")
    lines = [line.strip() for line in done.stdout.splitlines() if line.startswith(marked)]
    return {line[2:].rpartition(": ")[0].split(": ")[0]: line[0] for line in lines}


def content(server: PrefectServer) -> str:
    """All that `setup` may change on a server."""
    with server.client() as http:
        found = [_read_all(http, what) for what in (
            "work_pools", "block_types", "block_schemas", "block_documents")]  # fmt: skip
        found += [_read_all(http, what, sort="CREATED_DESC") for what in ("flows", "deployments")]
        # Read by pool: the server sorts all queues by name alone, so its pages are not stable.
        found += [_read_all(http, f"work_pools/{pool['name']}/queues") for pool in found[0]]
    return json.dumps([sorted(map(_written, items), key=lambda each: each["id"])
                       for items in found])  # fmt: skip


def _read_all(http: httpx.Client, what: str, **order: str) -> list[dict[str, Any]]:
    """Every item, as the server answers with 200 at most."""
    found: list[dict[str, Any]] = []
    while True:
        page = {"limit": 200, "offset": len(found), **order}
        items = http.post(f"/{what}/filter", json=page).raise_for_status().json()
        found += items
        if len(items) < 200:
            return found


def _written(item: dict[str, Any]) -> dict[str, Any]:
    """What people write: a pool becomes NOT_READY when another story's worker is long gone."""
    if "status" not in item:
        return item
    return {name: value for name, value in item.items()
            if name not in ("status", "updated", "last_polled")}  # fmt: skip


def document(server: PrefectServer, slug: str, name: str) -> dict[str, Any] | None:
    """The block SLUG/NAME, secrets included."""
    path = f"/block_types/slug/{slug}/block_documents/name/{name}"
    with server.client() as http:
        answer = http.get(path, params={"include_secrets": True})
        if answer.status_code == 404:
            return None
        data: dict[str, Any] = answer.raise_for_status().json()
        return data


def delete_deployments(server: PrefectServer, *names: str) -> None:
    """The server is for all stories, and the plain name of a deployment is one pool's."""
    wanted = {"deployments": {"name": {"any_": names}}}
    with server.client() as http:
        for each in http.post("/deployments/filter", json=wanted).raise_for_status().json():
            http.delete(f"/deployments/{each['id']}").raise_for_status()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A user's own folder: with `blocks` and `flows` that are not ours, and no policy."""
    folder = tmp_path / "project"
    for name in ("blocks", "flows"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text("raise ImportError('not ours')")
    (folder / "train.py").write_text(FLOW)
    return folder


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
        # The form of the version before.
        text_or_null = [{"type": "string"}, {"type": "null"}]
        template["variables"]["properties"]["team"] = {"anyOf": text_or_null, "default": None}
        http.patch("/work_pools/gpu", json={"base_job_template": template}).raise_for_status()
    again = run_setup(environment, "--checkpoint-uri", str(tmp_path / "elsewhere"))
    with prefect_on_sqlite.client() as http:
        after = http.get("/work_pools/gpu").json()["base_job_template"]["variables"]["properties"]
        queues = http.post("/work_pools/gpu/queues/filter", json={}).json()

    made = {name for name, mark in first.items() if mark == "+"}
    assert {"work pool gpu", "work queue critical", "work queue low"} <= made
    assert {"block gpu-usage-ledger/gpu", "block gpu-checkpoint-store/gpu"} <= made
    assert {"deployment train-digits/research", "deployment report-cost/nightly"} <= made
    assert first["block gpu-mlflow-tracking/gpu"] == "!"
    # What was changed behind its back, or is now asked for, is set right; all else is left alone.
    changed = {name for name, mark in again.items() if mark == "~"}
    assert {"work pool gpu", "work queue low", "block gpu-checkpoint-store/gpu"} <= changed
    assert {name: mark for name, mark in again.items() if name.startswith("deployment ")} == {
        name: "=" for name in made if name.startswith("deployment ")
    }
    assert again["block gpu-usage-ledger/gpu"] == "="
    assert next(queue for queue in queues if queue["name"] == "low")["priority"] == 4
    assert after["gpu_count"]["default"] == 4
    assert "gpu_memory_gib" in after
    assert after["team"] == {"type": "string"}


def test_a_clusters_pool_gets_its_namespace_and_image_and_no_folders_of_this_machine(
    prefect_on_postgresql, tmp_path
):
    environment = prefect_on_postgresql.environment
    cluster = ("--type", "gpu-kubernetes", "--namespace", "prefect-gpu")
    # A folder without deployments, which are set up as for any pool.
    here = {"pool": "cluster", "folder": tmp_path}
    delete_deployments(prefect_on_postgresql, "container-job")

    first = run_setup(environment, *cluster, "--image", "train:1", **here)
    account = ("--service-account-name", "gpu-run")
    newer = run_setup(environment, *cluster, "--image", "train:2", *account, **here)
    again = run_setup(environment, *cluster, **here)
    with prefect_on_postgresql.client() as http:
        template = http.get("/work_pools/cluster").json()["base_job_template"]
    refused = setup(environment, "--pool", "machine", "--image", "train:1", folder=tmp_path)

    assert [done["work pool cluster"] for done in (first, newer, again)] == ["+", "~", "="]
    assert first["block gpu-usage-ledger/cluster"] == "!"
    assert first["block gpu-checkpoint-store/cluster"] == "!"
    assert first["deployment run-container/container-job"] == "+"
    properties = template["variables"]["properties"]
    assert properties["namespace"]["default"] == "prefect-gpu"
    assert properties["image"]["default"] == "train:2"
    assert properties["service_account_name"]["default"] == "gpu-run"
    assert refused.returncode == 2
    assert "image is not a variable of a pool of type gpu-process" in refused.stderr


def test_a_folder_of_ones_own_gets_everything_and_a_dry_run_changes_nothing(
    prefect_on_postgresql, project
):
    """Block types and flows come from the package, blocks are the pool's, `default` stays."""
    server, environment = prefect_on_postgresql, prefect_on_postgresql.environment
    addresses = ("--ledger-url", "sqlite:////ledger/own.db", "--checkpoint-uri", "s3://bucket/own",
                 "--mlflow-uri", "http://mlflow.example:5000")  # fmt: skip
    (project / "prefect.yaml").write_text(PROJECT.format(name="own", pool="own"))
    delete_deployments(server, "nightly", "own")

    before = content(server)
    dry = run_setup(environment, *addresses, "--dry-run", pool="own", folder=project)
    assert content(server) == before
    # Of the folders of the same names that are not ours an interpreter knows when it is new.
    first = run_setup(environment, *addresses, pool="own", folder=project, is_new=True)
    after = content(server)
    dry_again = run_setup(environment, *addresses, "--dry-run", pool="own", folder=project)
    assert content(server) == after

    made = {name for name, mark in first.items() if mark == "+"}
    assert {"work pool own", "block gpu-usage-ledger/own", "block gpu-checkpoint-store/own",
            "block gpu-mlflow-tracking/own", "deployment train/own",
            "deployment report-cost/nightly"} <= made  # fmt: skip
    assert {name for name, mark in dry.items() if mark == "+"} == (
        made - {"deployment train/own"} | {"deployment own"}
    )
    assert set(dry_again.values()) - {"!"} == {"="}
    assert dry_again["policy"] == "!"
    ledger = document(server, "gpu-usage-ledger", "own")
    assert ledger is not None
    assert ledger["data"]["url"] == "sqlite:////ledger/own.db"
    assert document(server, "gpu-usage-ledger", "default") is None

    # A pool of before: its blocks are those that all pools had in common.
    with server.client() as http:
        for slug, data in (("gpu-usage-ledger", {"url": "sqlite:////ledger/shared.db"}),
                           ("gpu-checkpoint-store", {"uri": "/shared"})):  # fmt: skip
            own = document(server, slug, "own")
            assert own is not None
            http.post("/block_documents/", json={
                "name": "default", "data": data, "block_type_id": own["block_type_id"],
                "block_schema_id": own["block_schema_id"],
            }).raise_for_status()  # fmt: skip
    (project / "prefect.yaml").unlink()
    arguments = ("--checkpoint-uri", "/of-other")
    other = run_setup(environment, *arguments, pool="Other Pool", folder=project)
    names = {name for name in other if name.startswith("block ")}
    (ledger_of_other,) = (name for name in names if "usage-ledger" in name)
    found = document(server, "gpu-usage-ledger", ledger_of_other.rpartition("/")[2])
    assert found is not None
    assert found["data"]["url"] == "sqlite:////ledger/shared.db"
    (store,) = (name for name in names if "checkpoint-store" in name)
    found = document(server, "gpu-checkpoint-store", store.rpartition("/")[2])
    assert found is not None
    assert found["data"]["uri"] == "/of-other"
    # The plain name is the first pool's.
    assert any(name.startswith("deployment report-cost/nightly-other-pool-") for name in other)

    for slug in ("gpu-usage-ledger", "gpu-checkpoint-store"):
        shared = document(server, slug, "default")
        assert shared is not None
        with server.client() as http:
            http.delete(f"/block_documents/{shared['id']}").raise_for_status()


def test_a_wrong_project_changes_nothing_and_says_all_that_is_wrong(prefect_on_postgresql, project):
    (project / "prefect.yaml").write_text(
        PROJECT.format(name="wrong", pool="wrong").replace("work_queue_name", "work_queue_nam")
        + "  - {name: other, entrypoint: train.py:trian, work_pool: {name: no-such-pool}}\n"
    )
    before = content(prefect_on_postgresql)
    done = setup(prefect_on_postgresql.environment, "--pool", "wrong", folder=project)

    assert content(prefect_on_postgresql) == before
    assert done.returncode == 2
    for part in ("prefect.yaml:5: deployments[0] 'wrong' work_pool.work_queue_nam",
                 "Did you mean 'work_queue_name'", "Did you mean 'train'",
                 "'no-such-pool'"):  # fmt: skip
        assert part in done.stderr


def test_names_that_the_policy_lacks_are_lines_for_a_person(prefect_on_postgresql, project):
    """The lines that `check` has, and the queues of another policy; a repeat changes nothing."""
    environment = prefect_on_postgresql.environment
    variables = "job_variables: {team: visoin, gpu_type: h1000, "
    written = PROJECT.format(name="doubts", pool="doubts")
    (project / "prefect.yaml").write_text(written.replace("job_variables: {", variables))
    policy = "version: 1\nprices: {a100-80gbs: {on-demand: 3}}\nfair_share: {weights: {vision: 2}}"
    (project / "policy.yaml").write_text(policy)
    arguments = ("--policy", "policy.yaml")
    first = run_setup(environment, *arguments, pool="doubts", folder=project)
    again = run_setup(environment, *arguments, pool="doubts", folder=project)

    doubts = {
        "policy.yaml:2 prices.a100-80gbs",
        "policy.yaml:3 fair_share.weights",
        "prefect.yaml:5 deployments[0] 'doubts' work_pool.job_variables.gpu_type",
        "prefect.yaml:5 deployments[0] 'doubts' work_pool.job_variables.team",
    }
    assert {name for name, mark in first.items() if mark == "!" and "block" not in name} == doubts
    assert set(again.values()) == {"=", "!"}

    (project / "prefect.yaml").unlink()
    (project / "policy.yaml").write_text("version: 1\npriorities: {medium: 2, low: 1}\n")
    other = run_setup(environment, *arguments, pool="doubts", folder=project)
    assert {name for name, mark in other.items() if mark == "!" and "block" not in name} == {
        "work queue critical", "work queue high",
    }  # fmt: skip
