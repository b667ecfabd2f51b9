"""What a process worker reports of its machine."""

import errno
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import anyio
import pytest
from prefect.client.schemas.objects import FlowRun

from gpu_core.decisions.checkpoints.trust import SIGNING_KEY_VARIABLE
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.gpu_health import HealthVerdict
from gpu_core.decisions.requests.runs.run_context import RunContext
from gpu_core.decisions.requests.runs.run_workload import RunLimits
from gpu_core.decisions.requests.variables.job_variables import GpuRequest
from gpu_core.decisions.telemetry.health import HealthFinding
from gpu_core.testing.builders.attempts import NOON, make_attempt, make_run
from gpu_core.testing.builders.workloads import make_policy, make_workload
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.infrastructure import Unavailable
from gpu_core.worker.process import infrastructure
from gpu_core.worker.process.attempts import processes
from gpu_core.worker.process.infrastructure import ProcessInfrastructure
from gpu_core.worker.process.variables import GpuProcessJobConfiguration
from gpu_core.worker.startup.settings import GpuWorkerSettings

VIRTUAL = make_policy(virtual_gpus={"gpu_type": "t4", "count": 2})


def machine(**settings):
    return ProcessInfrastructure(VIRTUAL, lambda: None, GpuWorkerSettings(**settings))


@pytest.mark.parametrize("capacity_type", ["on-demand", "spot", "reserved"])
def test_the_machine_is_what_its_operator_says(capacity_type):
    nodes = anyio.run(machine(capacity_type=capacity_type).observe, VIRTUAL, ())
    assert [node.capacity_type for node in nodes] == [capacity_type]


def running_in(run_dir):
    """An attempt on the first virtual GPU."""
    return AttemptState(
        attempt=make_attempt(gpu_ids=("virtual-0",)),
        record=make_run(),
        workload=make_workload(),
        request=GpuRequest(),
        limits=RunLimits(max_duration_s=None, max_failures=3, max_interruptions=None),
        run_dir=run_dir,
    )


def start(infrastructure, run_dir, changes=None, **configuration):
    """Start an attempt there."""
    context = RunContext(flow_run_id="run-1", attempt=1, attempt_id="a", devices=("virtual-0",))
    context = replace(context, **(changes or {}))
    anyio.run(
        infrastructure.start,
        running_in(run_dir),
        GpuProcessJobConfiguration(**configuration),
        context,
        {},
        VIRTUAL,
    )


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(OSError(errno.ENOSPC, "No space left on device"), id="the disk is full"),
        pytest.param(OSError(errno.EDQUOT, "Disk quota exceeded"), id="its quota is used up"),
        pytest.param(OSError(errno.EAGAIN, "Resource temporarily unavailable"), id="no process"),
    ],
)
def test_what_the_machine_has_no_room_for_is_not_the_run_s_fault(monkeypatch, tmp_path, error):
    def refuse(*_arguments):
        raise error

    infrastructure = machine()
    monkeypatch.setattr(infrastructure._processes, "start", refuse)
    with pytest.raises(Unavailable, match=error.strerror):
        start(infrastructure, tmp_path / "run")


def test_a_run_folder_that_cannot_be_made_is_not_the_run_s_fault(tmp_path):
    (tmp_path / "runs").write_text("somebody's file")
    with pytest.raises(Unavailable, match="runs"):
        start(machine(), tmp_path / "runs" / "run")


def test_a_working_directory_that_is_not_there_is_the_run_s_fault(tmp_path):
    with pytest.raises(FileNotFoundError):
        start(machine(), tmp_path / "run", working_dir=tmp_path / "missing")


def test_a_run_reads_since_when_the_machine_is_up_and_where_to_hear_of_its_end():
    running = running_in(Path("runs"))
    context = RunContext(flow_run_id="run-1", attempt=1, attempt_id="a")
    url = "http://169.254.169.254"
    found = anyio.run(machine(instance_metadata_url=url).context, running, context)
    assert (found.run_dir, found.devices) == ("runs", ("virtual-0",))
    assert found.capacity_since is not None
    assert found.capacity_since < datetime.now(UTC)
    assert found.instance_metadata_url == url


def test_virtual_gpus_may_play_spot():
    policy = make_policy(virtual_gpus={"gpu_type": "t4", "count": 2, "spot": 1})
    infrastructure = ProcessInfrastructure(policy, lambda: None, GpuWorkerSettings())
    steady, spot = anyio.run(infrastructure.observe, policy, ())
    assert (steady.capacity_type, steady.gpu_ids) == ("on-demand", ("virtual-0", "virtual-1"))
    assert (spot.capacity_type, spot.gpu_ids) == ("spot", ("virtual-2",))
    assert spot.name == f"{steady.name}/spot"
    assert (steady.machine.gpus, spot.machine.gpus) == (2, 1)
    assert steady.machine.memory_mib is None  # of two nodes on one machine none has all of it


def test_the_machine_is_the_same_until_its_next_boot():
    (first,), (again,) = (anyio.run(machine().observe, VIRTUAL, ()) for _ in range(2))
    assert first.machine == again.machine
    assert (first.machine.gpus, first.machine.cpu_milli) == (2, 1000 * os.cpu_count())
    assert first.machine.created_at <= datetime.now(UTC)


@pytest.mark.parametrize(
    ("parts", "want"),
    [
        pytest.param({"gpu_share_milli": 250}, r"^gpu_fraction .*\(got 0.25\)", id="a share"),
        pytest.param({"mig_profile": "1g.10gb"}, r"^mig_profile .*\(got '1g.10gb'\)", id="MIG"),
    ],
)
def test_parts_of_gpus_are_refused(parts, want):
    """They would wait for ever: nothing of this machine is shared or partitioned."""
    with pytest.raises(InvalidInput, match=want + ".*gpu-kubernetes"):
        machine().fitted(make_workload(**parts), {}, VIRTUAL, "train", has_deployment=True)


def test_a_variable_from_a_secret_of_kubernetes_is_refused_when_the_run_is_read():
    secret = {"name": "K", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    plain = {"name": "A", "value": "1"}

    def fit(env):
        workload = make_workload()
        variables = {"env": env}
        return machine().fitted(workload, variables, VIRTUAL, "train", has_deployment=True)

    assert fit([plain]) == fit({"A": "1"}) == make_workload()
    with pytest.raises(InvalidInput, match=r"env\.K uses valueFrom"):
        fit([plain, secret])


def test_what_a_process_gets_is_listed_and_extended_by_the_operator(monkeypatch):
    monkeypatch.setenv("PREFECT_API_DATABASE_CONNECTION_URL", "postgresql://prefect:secret@db/x")
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    monkeypatch.setenv("WANDB_API_KEY", "key")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("PREFECT_INTEGRATIONS_GPU_PASS_ENVIRONMENT", "WANDB_*")
    infrastructure = machine()
    configuration = GpuProcessJobConfiguration(
        env={"LC_ALL": None, "CUDA_VISIBLE_DEVICES": None, "DATA": "/data"}
    )
    configuration.prepare_for_flow_run(FlowRun(id=uuid4(), flow_id=uuid4()))
    context = RunContext(flow_run_id="run-1", attempt=1, attempt_id="a")
    found = infrastructure._run_environment(configuration, context, {"MLFLOW_EXPERIMENT_NAME": "x"})
    assert found["PATH"] == os.environ["PATH"]
    assert {name: found.get(name) for name in ("WANDB_API_KEY", "DATA", "LC_ALL")} == {
        "WANDB_API_KEY": "key", "DATA": "/data", "LC_ALL": None,
    }  # fmt: skip
    assert found["MLFLOW_EXPERIMENT_NAME"] == "x"
    assert "CUDA_VISIBLE_DEVICES" in found, "the worker sets it, and a run cannot unset it"
    assert "secret" not in str(found)


class Processes:
    """Starts nothing, and keeps what it was to be started with."""

    def start(self, command, environment, working_dir, run_dir, beside):
        self.command, self.environment = [*beside, *command], environment
        return SimpleNamespace(pid=1, created_at=0.0)


@pytest.mark.parametrize("required", [False, True])
def test_runs_get_the_signing_key_in_their_environment_alone(tmp_path, required):
    """Other users of the machine read command lines; a run cannot choose another key."""
    infrastructure = machine(checkpoint_signing_key="0123456789abcdef")
    infrastructure._processes = processes = Processes()
    changes = {"requires_signatures": required}
    start(infrastructure, tmp_path, changes, env={SIGNING_KEY_VARIABLE: "the run's own key"})
    assert processes.environment[SIGNING_KEY_VARIABLE] == "0123456789abcdef"
    assert "0123456789abcdef" not in f"{processes.command} {infrastructure._settings!r}"


def test_nothing_is_charged_for_a_signing_key_that_the_worker_lacks(tmp_path):
    """The policy requires signatures: the run could save nothing that it may restore."""
    with pytest.raises(Unavailable, match=r"no signing key\. Set PREFECT_INTEGRATIONS_GPU"):
        start(machine(), tmp_path, {"requires_signatures": True})


def test_a_signing_key_that_can_be_guessed_is_refused():
    """At the worker's start, and the error does not show it."""
    with pytest.raises(InvalidInput, match="too short") as refused:
        machine(checkpoint_signing_key="s3cret")
    assert "s3cret" not in str(refused.value)


def test_a_gpu_that_is_held_is_out_of_the_plan_and_counts_as_a_fault(tmp_path):
    infrastructure = machine(state_dir=tmp_path)
    finding = HealthFinding(
        verdict=HealthVerdict.RESET, reason="it fell off the bus", remedy="restart", found_at=NOON
    )
    infrastructure._held.hold("virtual-1", finding)
    (node,) = anyio.run(infrastructure.observe, VIRTUAL, ())
    assert node.unhealthy_gpu_ids == {"virtual-1"}
    assert (node.machine.gpus, node.machine.faulty_gpus) == (2, 1)
    infrastructure._held.free("virtual-1")
    (node,) = anyio.run(infrastructure.observe, VIRTUAL, ())
    assert (node.unhealthy_gpu_ids, node.machine.faulty_gpus) == (frozenset(), 0)


@pytest.mark.parametrize("program", [infrastructure._SAMPLER, processes._LAUNCHER])
def test_the_programs_beside_an_attempt_are_where_they_are_started_from(program):
    """No import fails where one has moved: an attempt would run without its samples."""
    assert program.is_file()
