"""`prefect-gpu doctor` on a real server: from a pool that is missing to one in trouble."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
from prefect.client.schemas.objects import WorkPool
from prefect.settings import PREFECT_API_URL, temporary_settings

from gpu_core.cli.main import main
from gpu_core.worker import GpuProcessWorker

POLICY = "version: 1\nvirtual_gpus: {gpu_type: a100-80gb, count: 8}\n"
SETTING = "PREFECT_INTEGRATIONS_GPU_"
HIDDEN = "hidden-word"

Doctor = Callable[[str], dict[str, list[Any]]]


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A policy with virtual GPUs, and a state folder that does not exist."""
    monkeypatch.setenv(f"{SETTING}STATE_DIR", str(tmp_path / "gpu"))
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    return path


@pytest.fixture
def doctor(policy: Path, capsys: pytest.CaptureFixture[str]) -> Doctor:
    """The findings of each check on a pool, in which something has failed."""

    def examine(pool: str) -> dict[str, list[Any]]:
        assert main(["doctor", "--pool", pool, "--policy", str(policy), "--json"]) == 1
        found: dict[str, list[Any]] = {}
        for finding in json.loads(capsys.readouterr().out)["findings"]:
            found.setdefault(finding["check"], []).append(finding)
        return found

    return examine


def set_up(name: str, worker_type: str, **template: Any) -> None:
    """A pool, as `prefect-gpu setup` makes it."""
    with get_client(sync_client=True) as client:
        client.create_work_pool(
            WorkPoolCreate(
                name=name,
                type=worker_type,
                base_job_template=GpuProcessWorker.get_default_base_job_template() | template,
            )
        )


def failed_checks(found: dict[str, list[Any]]) -> set[str]:
    """Which checks have failed?"""
    return {name for name, each in found.items() if any(f["status"] == "failed" for f in each)}


@pytest.mark.usefixtures("prefect_server")
def test_from_a_missing_pool_to_one_in_trouble(
    doctor: Doctor, policy: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    missing = doctor("doctors")["prefect.pool"][0]
    assert "Work pool 'doctors' not found" in missing["message"]
    assert missing["remedy"].startswith("prefect-gpu setup --pool doctors")

    set_up("doctors", "gpu-process")
    new = doctor("doctors")
    # Only a worker is missing; and nothing of what was looked at has been made.
    assert failed_checks(new) == {"prefect.worker"}
    assert "prefect worker start --pool doctors" in new["prefect.worker"][0]["message"]
    assert new["versions.prefect-server"][0]["status"] == "ok"
    assert new["template.variables"][0]["message"] == "matches this version"
    assert new["clocks.skew"][0]["status"] == "ok"
    assert "8 virtual GPUs" in new["gpus.virtual"][0]["message"]
    assert not (tmp_path / "gpu").exists()

    template = GpuProcessWorker.get_default_base_job_template()
    del template["variables"]["properties"]["gpu_memory_gib"]
    with get_client(sync_client=True) as client:
        update = WorkPoolUpdate(is_paused=True, base_job_template=template)
        client.update_work_pool("doctors", update)
    monkeypatch.setenv(f"{SETTING}LEDGER_URL", f"postgresql://u:{HIDDEN}@127.0.0.1:9/ledger")
    monkeypatch.setenv(f"{SETTING}MLFLOW_TRACKING_URI", f"http://u:{HIDDEN}@127.0.0.1:9")
    monkeypatch.setenv(f"{SETTING}CHECKPOINT_URI", str(policy))
    monkeypatch.setenv(f"{SETTING}LEDGER_ULR", "x")
    found = doctor("doctors")
    stores = {"ledger.version", "mlflow.access", "store.checkpoints"}
    assert failed_checks(found) == {"prefect.worker", "settings.worker", *stores}
    assert "is paused" in found["prefect.pool"][1]["message"]
    assert (
        "4 queues defined in the policy not found in the pool"
        in found["prefect.queues"][0]["message"]
    )
    assert (
        "1 job variable missing from the base job template"
        in found["template.variables"][0]["message"]
    )
    assert HIDDEN not in json.dumps(found)


@pytest.mark.usefixtures("prefect_server")
def test_without_a_pool_the_only_one_is_taken_and_several_are_named(
    policy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read = PrefectClient.read_work_pools

    async def read_ours(client: PrefectClient, **page: Any) -> list[WorkPool]:
        """Without the pools of other tests."""
        return [pool for pool in await read(client, **page) if pool.name in ("only", "second")]

    monkeypatch.setattr(PrefectClient, "read_work_pools", read_ours)

    def examine() -> dict[str, Any]:
        main(["doctor", "--policy", str(policy), "--json"])
        findings = json.loads(capsys.readouterr().out)["findings"]
        return {finding["check"]: finding for finding in findings}

    assert examine()["prefect.pool"]["remedy"].startswith("prefect-gpu setup --pool gpu ")
    set_up("only", "gpu-process")
    assert examine()["prefect.pool"]["message"] == "work pool 'only' of type gpu-process"
    set_up("second", "gpu-process")
    several = examine()
    assert several["prefect.pool"]["status"] == "unknown"
    assert several["prefect.pool"]["message"].startswith(
        "Found 2 GPU pools: only, second. Skipping checks of the template"
    )
    # What no pool is needed for is looked at all the same.
    assert several["versions.prefect-server"]["status"] == "ok"
    assert "8 virtual GPUs" in several["gpus.virtual"]["message"]


@pytest.mark.usefixtures("prefect_server")
def test_a_pool_of_another_type(doctor: Doctor) -> None:
    set_up("others", "process")
    found = doctor("others")["prefect.pool"][0]
    assert "is of type 'process', not gpu-process or gpu-kubernetes" in found["message"]


def test_a_server_that_is_down_hides_nothing_else(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(f"{SETTING}CHECKPOINT_URI", str(tmp_path))
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        found = doctor("gpu")
    assert found["prefect.api"][0]["status"] == "failed"
    assert found["store.checkpoints"][0]["status"] == "ok"
    assert found["gpus.virtual"][0]["status"] == "ok"
    assert found["ledger.version"][0]["status"] == "unknown"
    assert [path.name for path in tmp_path.iterdir()] == ["policy.yaml"]


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param(("--policy", "/nowhere.yaml"), "--policy is not a file", id="no policy"),
        pytest.param(("--service-account", "x"), "Allowed: NAMESPACE/NAME", id="no account"),
        pytest.param(("--pool", ""), "--pool is empty", id="no pool"),
    ],
)
def test_bad_usage(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], want: str
) -> None:
    assert main(["doctor", *arguments]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert want in said.err
