"""What keeps a worker from starting: all that a person must change, in the words of that person."""

import errno
import os
import tempfile
from types import SimpleNamespace

import anyio
import httpx
import pytest
from prefect.exceptions import ObjectNotFound

from gpu_core.adapters.files.policy_file import load_policy
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.worker import GpuKubernetesWorker
from gpu_core.worker.startup.checks import (
    CannotStart,
    check_machine,
    check_pool,
    no_contact,
    read_settings,
    refusal_in,
)
from gpu_core.worker.startup.settings import GpuWorkerSettings

PREFIX = "PREFECT_INTEGRATIONS_GPU_"


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv(f"{PREFIX}STATE_DIR", str(tmp_path / "gpu"))


@pytest.mark.parametrize(
    ("error", "want"),
    [
        pytest.param(
            httpx.ConnectError("refused"),
            "connection failed (refused). Start the Prefect server or correct PREFECT_API_URL.",
            id="no server",
        ),
        pytest.param(
            httpx.ConnectTimeout(""), "no connection in time. Start the", id="no way to the server"
        ),
        pytest.param(
            httpx.ReadTimeout(""),
            "no answer in time. The server is running but responding slowly",
            id="starved",
        ),
        pytest.param(
            httpx.RemoteProtocolError("cut"),
            "the connection was interrupted (cut). Start the",
            id="cut off",
        ),
    ],
)
def test_a_slow_server_and_one_that_is_down_have_different_remedies(error, want):
    said = no_contact("http://me:hunter22@a:4200/api", error)
    assert f"unable to connect to the Prefect API at http://me:***@a:4200/api: {want}" in said
    assert "hunter22" not in said


@pytest.mark.parametrize(
    ("name", "value", "want"),
    [
        pytest.param(
            "CAPACITY_TYPE",
            "spott",
            "Did you mean 'spot'? Allowed: on-demand, spot, reserved",
            id="a choice",
        ),
        pytest.param("POLCY_PATH", "x", "GPU_POLICY_PATH'?", id="a name"),
        pytest.param("CHECKPOINT_SIGNING_KEY", "short", "16 characters", id="a key"),
        pytest.param("PASS_ENVIRONMENT", "A=B", "got 'A=B'", id="names of variables"),
    ],
)  # fmt: skip
def test_a_setting_that_cannot_be_used_is_named_as_it_is_set(monkeypatch, name, value, want):
    monkeypatch.setenv(f"{PREFIX}{name}", value)
    _, mistakes = read_settings(os.environ)
    (mistake,) = mistakes
    assert str(mistake).startswith(f"{PREFIX}{name} ")
    assert want in str(mistake)


def test_settings_that_can_be_used_are_read(monkeypatch):
    monkeypatch.setenv(f"{PREFIX}CAPACITY_TYPE", "spot")
    settings, mistakes = read_settings(os.environ)
    assert (settings.capacity_type, mistakes) == ("spot", [])


def test_the_policys_mistakes_are_those_that_set_up_names_and_the_folder_is_named_too(tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\nprioritees: {}\nbackfill: {mode: eazy}\n")
    (tmp_path / "file").write_text("in the way")
    settings = GpuWorkerSettings(policy_path=policy, state_dir=tmp_path / "file")

    with pytest.raises(InvalidInput) as of_setup:
        load_policy(policy)
    with pytest.raises(InvalidInput) as of_worker:
        check_machine(settings, [], needs_folder=True)

    *lines, last = str(of_worker.value).splitlines()
    assert lines == str(of_setup.value).splitlines()
    assert len(lines) == 2
    assert last.startswith(f"{PREFIX}STATE_DIR is not a folder that this user can write to")


@pytest.mark.parametrize("setting", ["policy_path", "prices_path"])
def test_a_missing_file_of_a_setting_is_refused(tmp_path, setting):
    settings = GpuWorkerSettings(state_dir=tmp_path / "gpu", **{setting: tmp_path / "none.yaml"})
    with pytest.raises(InvalidInput, match=r"none\.yaml does not exist"):
        check_machine(settings, [], needs_folder=True)


@pytest.mark.parametrize(
    ("number", "is_refused"),
    [(errno.EACCES, True), (errno.EROFS, True), (errno.ENOSPC, False), (errno.EIO, False)],
    ids=["no right", "a read-only disk", "a full disk", "a disk that fails"],
)
def test_a_full_disk_keeps_no_worker_from_starting(monkeypatch, tmp_path, number, is_refused):
    def refuse(**_options):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    settings = GpuWorkerSettings(state_dir=tmp_path / "gpu")
    if not is_refused:
        assert check_machine(settings, [], needs_folder=True).current().version == 1
        return
    with pytest.raises(InvalidInput, match="Name another folder, or change its owner"):
        check_machine(settings, [], needs_folder=True)


def test_a_cluster_needs_no_state_folder(tmp_path):
    (tmp_path / "file").write_text("in the way")
    settings = GpuWorkerSettings(state_dir=tmp_path / "file")
    assert check_machine(settings, [], needs_folder=False).current().version == 1


class Server:
    """A Prefect server with the pools `gpu` and `big` of ours, and `cpu` of Prefect's."""

    types = {"gpu": "gpu-process", "big": "gpu-kubernetes", "cpu": "process"}  # noqa: RUF012

    async def read_work_pool(self, name):
        if name not in self.types:
            raise ObjectNotFound(LookupError(name))
        return SimpleNamespace(name=name, type=self.types[name])

    async def read_work_pools(self, limit, offset, work_pool_filter):
        wanted = work_pool_filter.type.any_
        found = [await self.read_work_pool(name) for name in sorted(self.types)]
        return [pool for pool in found if pool.type in wanted][offset : offset + limit]

    async def read_work_queues(self, work_pool_name, limit, offset):
        assert work_pool_name in self.types
        queues = [SimpleNamespace(name=name) for name in ("high", "low")]
        return queues[offset : offset + limit]


@pytest.mark.parametrize(
    ("pool", "queues", "wants"),
    [
        pytest.param(
            "gpuu",
            (),
            ("got 'gpuu'", "Did you mean 'gpu'?", "setup --pool gpuu --type gpu-process"),
            id="a misspelled pool",
        ),
        pytest.param(
            "my pool",
            (),
            ("Allowed: gpu", "setup --pool 'my pool' --type gpu-process"),
            id="a pool of another name",
        ),
        pytest.param(
            "cpu",
            (),
            ("Allowed: process", "prefect worker start --pool cpu --type process"),
            id="a pool of Prefect's",
        ),
        pytest.param("big", (), ("Allowed: gpu-kubernetes",), id="a pool of a cluster"),
        pytest.param("gpu", ("hihg",), ("got 'hihg'", "Did you mean 'high'?"), id="a queue"),
    ],
)  # fmt: skip
def test_a_pool_that_is_not_this_workers_is_refused(pool, queues, wants):
    with pytest.raises(InvalidInput) as caught:
        anyio.run(check_pool, Server(), pool, "gpu-process", queues)
    for want in wants:
        assert want in str(caught.value)


def test_its_own_pool_and_queues_are_accepted():
    anyio.run(check_pool, Server(), "gpu", "gpu-process", ("high", "low"))


def test_a_refusal_is_found_in_what_task_groups_raise():
    refusal = CannotStart("no")
    nested = BaseExceptionGroup("a", [ValueError(), BaseExceptionGroup("b", [refusal])])
    assert refusal_in(nested) is refusal
    assert refusal_in(ExceptionGroup("a", [ValueError()])) is None
    assert refusal_in(KeyboardInterrupt()) is None


def test_a_worker_without_a_cluster_ends(monkeypatch, tmp_path):
    async def no_block(_worker):
        return None

    monkeypatch.setattr(GpuKubernetesWorker, "_cluster", no_block)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    worker = GpuKubernetesWorker(work_pool_name="gpu")
    with pytest.raises(CannotStart, match="no Kubernetes cluster configuration found"):
        anyio.run(worker._connected, "lease")
