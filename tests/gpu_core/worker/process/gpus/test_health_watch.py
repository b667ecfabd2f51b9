"""GPUs that are not well are held, once, and until a person frees them."""

from datetime import UTC, datetime, timedelta

import pytest

from gpu_core.adapters.nvml import GpuDiscoveryError
from gpu_core.decisions.model.gpu_health import HealthVerdict
from gpu_core.decisions.telemetry.health import HOT_SAMPLES, HealthFinding
from gpu_core.decisions.telemetry.samples import GpuSample
from gpu_core.worker.process.gpus.health_watch import HealthWatch
from gpu_core.worker.process.gpus.held import HeldGpus

GPUS = ("GPU-a", "GPU-b")
START = datetime(2026, 11, 25, tzinfo=UTC)


class Script:
    """A sampler that gives what its test says; None: the driver fails."""

    def __init__(self):
        self.of_gpu = {}

    def sample(self, now):
        if self.of_gpu is None:
            raise GpuDiscoveryError("the NVIDIA driver does not answer")
        return tuple(GpuSample(gpu_id=g, at=now, **self.of_gpu.get(g, {})) for g in GPUS)

    def close(self):
        pass


class World:
    def __init__(self, folder):
        self.script, self.held, self.woken = Script(), HeldGpus(folder), 0
        self.watch = HealthWatch(GPUS, self.held, self.wake, 1.0, self.script)
        self.now = START

    def wake(self):
        self.woken += 1

    def look(self, times=1, **of_gpu):
        self.script.of_gpu = {name.replace("_", "-"): v for name, v in of_gpu.items()}
        for _ in range(times):
            self.now += timedelta(seconds=1)
            self.pause_s = self.watch.look(self.now)
        return {gpu: held.verdict for gpu, held in self.held.read().items()}


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def test_an_xid_holds_its_gpu_and_wakes_the_worker_once(world, caplog):
    assert world.look(3) == {}
    assert world.look(GPU_a={"xids": (79,)}) == {"GPU-a": HealthVerdict.RESET}
    assert world.look(20, GPU_a={"is_lost": True}) == {"GPU-a": HealthVerdict.RESET}
    assert world.woken == 1
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == (
        "GPU-a is held (reset): XID 79 (the GPU has fallen off the bus). Restart the "
        "machine, then free it with `prefect-gpu gpus free GPU-a`."
    )


def test_a_hot_gpu_is_held_after_samples_in_a_row_only(world):
    hot, well = {"temperature_c": 90.0}, {"temperature_c": 60.0}
    assert world.look(HOT_SAMPLES - 1, GPU_a=hot) == {}
    assert world.look(GPU_a=well) == {}
    assert world.look(HOT_SAMPLES, GPU_a=hot, GPU_b=well) == {"GPU-a": HealthVerdict.DRAIN}


def test_a_freed_gpu_is_judged_anew(world):
    hot = {"temperature_c": 90.0}
    world.look(HOT_SAMPLES, GPU_a=hot)
    assert world.held.free("GPU-a")
    assert world.look(GPU_a={"temperature_c": 60.0}) == {}
    assert world.look(HOT_SAMPLES - 1, GPU_a=hot) == {}
    assert world.look(GPU_a=hot) == {"GPU-a": HealthVerdict.DRAIN}


def test_a_held_gpu_stays_held_over_a_restart_of_the_worker(world, tmp_path):
    world.look(GPU_b={"xids": (95,)})
    again = World(tmp_path)
    assert again.look(3) == {"GPU-b": HealthVerdict.RESET}
    assert again.woken == 0


@pytest.mark.parametrize("code", [13, 31, 43])
def test_an_error_of_the_program_holds_nothing(world, code, caplog):
    assert world.look(100, GPU_a={"xids": (code,)}) == {}
    assert caplog.text == ""


def test_an_unknown_error_asks_a_person_once_and_leaves_the_gpu_in_use(world, caplog):
    assert world.look(10, GPU_a={"xids": (999,)}) == {}
    assert caplog.text.count("GPU-a is degraded: XID 999. See NVIDIA's list") == 1


def test_a_driver_that_fails_holds_nothing_and_is_said_once(world, caplog):
    world.look()
    pauses_s = []
    for _ in range(9):
        world.script.of_gpu = None
        pauses_s.append(world.watch.look(world.now))
    assert world.look() == {}
    assert pauses_s == [5, 10, 20, 40, 80, 160, 300, 300, 300]
    assert caplog.text.count("Unable to sample local GPUs: the NVIDIA driver does not answer") == 1
    assert caplog.text.count("Resumed sampling of local GPUs") == 1


def test_a_disk_that_refuses_is_tried_again(world, tmp_path, caplog):
    (tmp_path / "held-gpus").write_text("in the way")
    assert world.look(GPU_a={"xids": (79,)}) == {}
    assert world.look(5) == {}
    assert caplog.text.count("Failed to hold GPU-a: ") == 1
    (tmp_path / "held-gpus").unlink()
    # The event came once and is not forgotten.
    assert world.look() == {"GPU-a": HealthVerdict.RESET}
    assert world.woken == 1
    assert world.held.free("GPU-a")
    assert world.look(5) == {}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"verdict": "fine"}', "null"])
def test_a_damaged_file_keeps_its_gpu_held(world, tmp_path, content):
    world.look(GPU_a={"xids": (79,)})
    (tmp_path / "held-gpus" / "GPU-a.json").write_text(content)
    assert world.look() == {"GPU-a": HealthVerdict.DRAIN}


def test_where_the_folder_cannot_be_read_a_held_gpu_stays_held(tmp_path):
    """As root all folders can be read: a file in its place is as unreadable to everyone."""
    held = HeldGpus(tmp_path)
    held.hold(
        "GPU-a", HealthFinding(verdict=HealthVerdict.RESET, reason="r", remedy="m", found_at=START)
    )
    assert set(held.read()) == {"GPU-a"}
    (tmp_path / "held-gpus").rename(tmp_path / "away")
    (tmp_path / "held-gpus").write_text("")
    assert set(held.read()) == {"GPU-a"}


def test_minutes_that_have_ended_are_taken_once(world):
    world.look(130, GPU_a={"utilization_ratio": 0.5}, GPU_b={"is_lost": True})
    found = world.watch.take_windows()
    assert [(w.summary.gpu_id, (w.minute - START).total_seconds()) for w in found] == [
        ("GPU-a", 0.0),
        ("GPU-a", 60.0),
    ]
    assert found[1].summary.utilization_mean_ratio == 0.5
    assert world.watch.take_windows() == ()


@pytest.mark.parametrize(
    ("peer", "want"),
    [
        pytest.param({"utilization_ratio": 1.0}, 1, id="its peer computes"),
        pytest.param({"utilization_ratio": 0.0}, 0, id="its peer waits, too"),
        pytest.param({}, 0, id="its peer is unknown"),
    ],
)
def test_a_gpu_at_zero_alone_in_its_run_is_said_once_and_stays_in_use(world, caplog, peer, want):
    world.watch.set_runs([GPUS])
    zero = {"utilization_ratio": 0.0, "process_ids": (7,)}
    assert world.look(400, GPU_a=zero, GPU_b=peer) == {}
    assert caplog.text.count("GPU-a is degraded: no work of its job is running") == want
