"""What GPUs do: the real sampler and nvidia-ml-py over a mock driver library."""

import json
import subprocess
import sys

import pytest

from tests.support.nvml_driver import driver_environment, gpu_lines

# The library is loaded once for a whole process, so that each case gets a process of its own.
PROGRAM = """
import dataclasses, json, sys
import pynvml
from datetime import UTC, datetime, timedelta
from gpu_core.adapters.nvml import GpuDiscoveryError, GpuSampler
initialize, initialized = pynvml.nvmlInit, []
pynvml.nvmlInit = lambda: initialized.append(initialize())
sampler = GpuSampler(json.loads(sys.argv[1]))
for line in sys.stdin:
    now = datetime(2026, 11, 1, tzinfo=UTC) + timedelta(seconds=float(line))
    try:
        found = [dataclasses.asdict(each) for each in sampler.sample(now)]
    except GpuDiscoveryError as error:
        found = str(error)
    print(json.dumps(found, default=lambda v: sorted(v) if isinstance(v, frozenset) else str(v)))
    sys.stdout.flush()
sampler.close()
print(len(initialized))
"""

BUSY = {
    "utilization": 93,
    "memory_utilization": 40,
    "memory_used": 42_949_672_960,
    "temperature": 66,
    "slowdown": 87,
    "shutdown": 92,
    "power": 512_500,
    "power_limit": 700_000,
    "energy": 123_456_789,
    "sm_clock": 1980,
    "memory_clock": 2619,
    "reasons": 0x25,
    "ecc_corrected": 2,
    "ecc_uncorrected": 0,
    "remapped_corrected": 3,
    "remapped_uncorrected": 1,
    "remapped_pending": 1,
    "pcie_tx": 5,
    "pcie_rx": 7,
}

UNKNOWN = {
    "parent_gpu_id": None,
    "is_lost": False,
    "utilization_ratio": None,
    "sm_active_ratio": None,
    "memory_busy_ratio": None,
    "memory_used_bytes": None,
    "memory_total_bytes": None,
    "temperature_c": None,
    "slowdown_temperature_c": None,
    "shutdown_temperature_c": None,
    "power_w": None,
    "power_limit_w": None,
    "energy_j": None,
    "pcie_sent_bytes_per_s": None,
    "pcie_received_bytes_per_s": None,
    "sm_clock_hz": None,
    "memory_clock_hz": None,
    "throttle_reasons": None,
    "ecc_corrected": None,
    "ecc_uncorrected": None,
    "remapped_rows": None,
    "xids": [],
    "process_ids": None,
}


class Machine:
    """A machine with the mock driver, and the sampler in a process of its own."""

    def __init__(self, driver, path, lines, gpu_ids=None):
        self._path = path
        path.write_text("".join(f"{line}\n" for line in lines), errors="surrogateescape")
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, json.dumps(gpu_ids)],
            env=driver_environment(driver, path),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def add(self, *lines):
        with self._path.open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def remove(self, beginning):
        kept = [
            line
            for line in self._path.read_text().splitlines(keepends=True)
            if not line.startswith(beginning)
        ]
        self._path.write_text("".join(kept))

    def sample(self, at_s=0.0):
        """The samples by GPU without their moments, or the error's text."""
        print(at_s, file=self._process.stdin, flush=True)
        found = json.loads(self._process.stdout.readline())
        if isinstance(found, str):
            return found
        return {each.pop("gpu_id"): each for each in found if each.pop("at")}

    def close(self):
        """How often the driver was initialized."""
        if self._process.stdout.closed:
            return None
        rest, _ = self._process.communicate()
        assert self._process.returncode == 0
        return int(rest)


@pytest.fixture
def machine(mock_driver, tmp_path):
    machines = []

    def start(*lines, driver=mock_driver, gpu_ids=None):
        machines.append(Machine(driver, tmp_path / "machine.txt", lines, gpu_ids))
        return machines[-1]

    yield start
    for each in machines:
        each.close()


def test_a_sample_has_base_units(machine):
    found = machine(*gpu_lines("GPU-a", **BUSY), "process GPU-a 42").sample()
    assert found == {
        "GPU-a": {
            "parent_gpu_id": None,
            "is_lost": False,
            "utilization_ratio": 0.93,
            "sm_active_ratio": None,
            "memory_busy_ratio": 0.4,
            "memory_used_bytes": 42_949_672_960,
            "memory_total_bytes": 85_899_345_920,
            "temperature_c": 66.0,
            "slowdown_temperature_c": 87.0,
            "shutdown_temperature_c": 92.0,
            "power_w": 512.5,
            "power_limit_w": 700.0,
            "energy_j": 123_456.789,
            "pcie_sent_bytes_per_s": 5_000.0,
            "pcie_received_bytes_per_s": 7_000.0,
            "sm_clock_hz": 1_980_000_000.0,
            "memory_clock_hz": 2_619_000_000.0,
            "throttle_reasons": ["power-cap", "thermal"],
            "ecc_corrected": 2,
            "ecc_uncorrected": 0,
            "remapped_rows": {
                "corrected": 3,
                "uncorrected": 1,
                "is_pending": True,
                "has_failed": False,
            },
            "xids": [],
            "process_ids": [42],
        }
    }


def test_activity_is_measured_between_two_samples(machine):
    watched = machine(*gpu_lines("GPU-a", sm_util=71, gpm_tx=2, gpm_rx=1))
    first, second = watched.sample()["GPU-a"], watched.sample()["GPU-a"]
    names = ("sm_active_ratio", "pcie_sent_bytes_per_s", "pcie_received_bytes_per_s")
    assert [first[name] for name in names] == [None, None, None]
    assert [second[name] for name in names] == [0.71, 2 * 2.0**20, 2.0**20]


def test_the_energy_counter_is_read_every_20_s(machine):
    """It takes a real driver fifteen times as long as all other questions."""
    each = machine(*gpu_lines("GPU-a", energy=1_000))
    counted = [each.sample(at_s=0)["GPU-a"]["energy_j"]]
    each.add("set GPU-a energy 9000")
    counted += [each.sample(at_s=at_s)["GPU-a"]["energy_j"] for at_s in (1, 19.9, 20, 5)]
    assert counted == [1.0, 1.0, 1.0, 9.0, 9.0]


def test_a_false_threshold_or_power_limit_does_not_stay(machine):
    """With a threshold of 61 C for ever, a GPU at 66 C would be held as too hot."""
    limits = ("slowdown_temperature_c", "shutdown_temperature_c", "power_limit_w")
    right = {"slowdown": 87, "shutdown": 92, "power_limit": 700_000}
    each = machine(*gpu_lines("GPU-a", **BUSY | {"slowdown": 61, "power_limit": "!999"}))
    found = [each.sample(at_s=0)["GPU-a"]]
    each.add(*(f"set GPU-a {name} {value}" for name, value in right.items()))
    found += [each.sample(at_s=at_s)["GPU-a"] for at_s in (1, 2)]
    each.add("set GPU-a slowdown 61")
    found += [each.sample(at_s=3)["GPU-a"]]
    assert [[sample[name] for name in limits] for sample in found] == [
        [61.0, 92.0, None],
        *[[87.0, 92.0, 700.0]] * 3,
    ]


def test_what_a_device_does_not_know_is_unknown(machine):
    known = {"memory_total_bytes": 85_899_345_920, "memory_used_bytes": 0, "process_ids": []}
    assert machine(*gpu_lines("GPU-a")).sample() == {"GPU-a": UNKNOWN | known}


def test_an_old_driver_gives_what_it_knows(machine, old_driver):
    found = machine(*gpu_lines("GPU-a", **BUSY, sm_util=50), driver=old_driver).sample()["GPU-a"]
    assert (found["remapped_rows"], found["sm_active_ratio"]) == (None, None)
    assert found["throttle_reasons"] == ["power-cap", "thermal"]
    assert found["power_w"] == 512.5


@pytest.mark.parametrize(
    ("field", "value", "name"),
    [
        pytest.param("utilization", 4294967295, "utilization_ratio", id="NVML's 32-bit blank"),
        pytest.param("utilization", 101, "utilization_ratio", id="over 100%"),
        pytest.param("energy", -1, "energy_j", id="NVML's 64-bit blank"),
        pytest.param("energy", 9223372036854775794, "energy_j", id="DCGM's blank"),
        pytest.param("temperature", 255, "temperature_c", id="a temperature no GPU has"),
        pytest.param("power", 99_999_999, "power_w", id="100 kW"),
        pytest.param("memory_used", 10**15, "memory_used_bytes", id="more memory than it has"),
        pytest.param("sm_clock", "!999", "sm_clock_hz", id="an unknown error"),
        pytest.param("power", "!4", "power_w", id="no permission"),
        pytest.param("reasons", "!13", "throttle_reasons", id="a missing function"),
    ],
)
def test_what_is_no_measurement_is_unknown(machine, field, value, name):
    found = machine(*gpu_lines("GPU-a", **BUSY | {field: value})).sample()["GPU-a"]
    assert found[name] is None
    assert found["slowdown_temperature_c"] == 87.0


def test_an_xid_is_in_the_next_sample_of_its_gpu_only(machine):
    watched = machine(*gpu_lines("GPU-a"), *gpu_lines("GPU-b"))
    before = watched.sample()
    watched.add("xid GPU-b 13", "xid GPU-b 79")
    during, after = watched.sample(), watched.sample()
    seen = [[found[gpu]["xids"] for gpu in ("GPU-a", "GPU-b")] for found in (before, during, after)]
    assert seen == [[[], []], [[], [13, 79]], [[], []]]


def test_a_gpu_that_is_lost_says_so_and_the_others_go_on(machine):
    watched = machine(*gpu_lines("GPU-a", temperature=50), *gpu_lines("GPU-b", temperature=60))
    watched.sample()
    watched.add("lost GPU-a 15")
    lost = watched.sample()
    assert lost["GPU-a"] == UNKNOWN | {"is_lost": True}
    assert lost["GPU-b"]["temperature_c"] == 60.0


def test_a_gpu_that_was_lost_before_the_first_sample_is_lost(machine):
    watched = machine("broken 15", *gpu_lines("GPU-b"), gpu_ids=["GPU-a", "GPU-b"])
    assert {gpu: each["is_lost"] for gpu, each in watched.sample().items()} == {
        "GPU-a": True,
        "GPU-b": False,
    }


def test_only_the_named_gpus_are_read(machine):
    watched = machine(*gpu_lines("GPU-a"), *gpu_lines("GPU-b"), gpu_ids=["GPU-b"])
    assert list(watched.sample()) == ["GPU-b"]


def test_a_driver_that_was_updated_is_an_error_until_it_works_again(machine):
    watched = machine(*gpu_lines("GPU-a", temperature=50))
    assert watched.sample()["GPU-a"]["temperature_c"] == 50.0
    watched.add("set GPU-a temperature !18", "init 18")
    failed, still = watched.sample(), watched.sample()
    watched.remove("init")
    watched.add("set GPU-a temperature 51")
    assert failed.startswith("the NVIDIA driver is not responding: ")
    assert still.startswith("the NVIDIA driver is installed but not responding")
    assert watched.sample()["GPU-a"]["temperature_c"] == 51.0


def test_a_replaced_driver_loses_no_gpu(machine):
    """Its error stands for no GPU, also where it comes with the first question about one."""
    watched = machine(*gpu_lines("GPU-a"), "lost GPU-a 18", gpu_ids=["GPU-a"])
    assert watched.sample().startswith("the NVIDIA driver is not responding: ")


def test_a_gpu_that_gave_a_false_answer_is_asked_again(machine):
    """A person would have to free a GPU that counts as lost by one answer."""
    watched = machine(*gpu_lines("GPU-a"), "lost GPU-a 999", gpu_ids=["GPU-a"])
    before = watched.sample()
    watched.remove("lost")
    assert (before["GPU-a"]["is_lost"], watched.sample()["GPU-a"]["is_lost"]) == (True, False)


def test_a_uuid_that_is_no_text_leaves_the_others_alone(machine):
    watched = machine(*gpu_lines("GPU-\udcff"), *gpu_lines("GPU-b"))
    assert list(watched.sample()) == ["GPU-b"]


def test_a_machine_whose_gpus_are_gone_is_not_initialized_again_and_again(machine):
    watched = machine("broken 15", gpu_ids=["GPU-a"])
    assert [watched.sample()["GPU-a"]["is_lost"] for _ in range(3)] == [True] * 3
    assert watched.close() == 1


def test_a_driver_without_a_gpu_is_an_error(machine):
    assert machine("broken 15").sample() == ("the NVIDIA driver did not find any responding GPUs")


def test_a_mig_instance_has_a_sample_of_its_own(machine):
    watched = machine(
        *gpu_lines("GPU-a", mig="1", temperature=40, utilization="!3"),
        "mig GPU-a MIG-x 20000000000 3",
        "mig GPU-a MIG-y 10000000000 5",
        *("set GPU-a sm_util 50", "set MIG-x sm_util 80", "set MIG-x memory_used 7000"),
        "process MIG-x 77",
    )
    watched.sample()
    found = watched.sample()
    assert list(found) == ["GPU-a", "MIG-x", "MIG-y"]
    assert found["GPU-a"]["sm_active_ratio"] == 0.5
    assert found["MIG-x"] == UNKNOWN | {
        "parent_gpu_id": "GPU-a",
        "sm_active_ratio": 0.8,
        "memory_used_bytes": 7000,
        "memory_total_bytes": 20_000_000_000,
        "process_ids": [77],
    }
    assert found["MIG-y"]["sm_active_ratio"] is None


def test_a_mig_instance_that_was_removed_has_no_sample(machine):
    watched = machine(*gpu_lines("GPU-a", mig="1"), "mig GPU-a MIG-x 20000000000 3")
    before = list(watched.sample())
    watched.remove("mig")
    assert (before, list(watched.sample())) == (["GPU-a", "MIG-x"], ["GPU-a"])


def test_values_are_scripted_over_time(machine):
    """Of the mock itself: what is to come has not happened."""
    watched = machine(
        *gpu_lines("GPU-a", temperature=50),
        *("set GPU-a temperature 90 3600", "xid GPU-a 79 3600", "lost GPU-a 15 3600"),
    )
    found = watched.sample()["GPU-a"]
    assert (found["temperature_c"], found["xids"], found["is_lost"]) == (50.0, [], False)


def test_without_a_driver_there_is_nothing_to_sample(machine):
    assert machine("init 9").sample() == "the NVIDIA driver is not loaded"
