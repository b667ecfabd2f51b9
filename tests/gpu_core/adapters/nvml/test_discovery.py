"""Which GPUs this machine has: the real adapter and nvidia-ml-py over a mock driver library."""

import itertools
import json
import shutil
import subprocess
import sys

import pytest

from gpu_core.adapters.nvml import DiscoveredGpu, discover_gpus, select_visible
from tests.support.light_worker import LIGHT_WORKER
from tests.support.nvml_driver import driver_environment

A100_BYTES = 85_899_345_920

# The library is loaded once for a whole process, so that each case gets a process of its own.
DISCOVER = """
import dataclasses, json, logging
from gpu_core.adapters.nvml import discover_gpus
logging.basicConfig(format="%(levelname)s %(message)s", level=logging.INFO)
print(json.dumps([dataclasses.asdict(gpu) for gpu in discover_gpus()]))
"""


@pytest.fixture
def discover(mock_driver, tmp_path):
    """Run the adapter in a new process on GPUs given as lines of the mock's file."""

    def run(*lines, program=DISCOVER, **variables):
        machine = tmp_path / "machine.txt"
        machine.write_text("".join(f"{line}\n" for line in lines))
        environment = driver_environment(mock_driver, machine)
        return subprocess.run(
            [sys.executable, "-c", program],
            env=environment | variables,
            capture_output=True,
            text=True,
        )

    return run


def gpu(index, uuid=None, **changes):
    values = {
        "uuid": uuid or f"GPU-{index}{index}{index}{index}",
        "index": index,
        "product_name": "NVIDIA A100-SXM4-80GB",
        "memory_total_bytes": A100_BYTES,
        "is_mig_enabled": False,
    }
    return DiscoveredGpu(**values | changes)


def test_every_gpu_is_found_with_what_nvml_says_of_it(discover):
    done = discover(
        f"gpu GPU-aaaa {A100_BYTES} 0 NVIDIA A100-SXM4-80GB",
        f"gpu GPU-bbbb {A100_BYTES} 1 NVIDIA A100-SXM4-80GB",
        "gpu GPU-cccc 15843721216 - Tesla T4",
        "gpu GPU-dddd - - NVIDIA GB10",
    )
    assert [DiscoveredGpu(**found) for found in json.loads(done.stdout)] == [
        gpu(0, "GPU-aaaa"),
        gpu(1, "GPU-bbbb", is_mig_enabled=True),
        gpu(2, "GPU-cccc", product_name="Tesla T4", memory_total_bytes=15_843_721_216),
        gpu(3, "GPU-dddd", product_name="NVIDIA GB10", memory_total_bytes=None),
    ]
    assert done.stderr == ""


def test_a_machine_without_gpus_has_none(discover):
    assert json.loads(discover("").stdout) == []


def test_a_driver_that_is_not_loaded_means_no_gpus(discover):
    done = discover("init 9", f"gpu GPU-aaaa {A100_BYTES} 0 NVIDIA A100-SXM4-80GB")
    assert (json.loads(done.stdout), done.stderr) == ([], "")


def test_without_the_driver_library_there_are_no_gpus(discover, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    if shutil.which("nvidia-smi"):
        pytest.skip("this machine has the real driver library")
    done = discover("", LD_LIBRARY_PATH=str(empty))
    assert (json.loads(done.stdout), done.stderr) == ([], "")


def test_a_driver_that_fails_is_an_error_and_not_a_machine_without_gpus(discover):
    done = discover("init 18")  # the library is newer than the kernel module
    assert done.returncode == 1
    assert "DriverReplacedError: the NVIDIA driver is installed but not responding" in done.stderr
    assert "nvidia-smi" in done.stderr


def test_a_gpu_that_fell_off_the_bus_is_left_out_with_a_warning(discover):
    done = discover(
        "broken 15",  # NVML_ERROR_GPU_IS_LOST
        f"gpu GPU-bbbb {A100_BYTES} 0 NVIDIA A100-SXM4-80GB",
    )
    assert [found["uuid"] for found in json.loads(done.stdout)] == ["GPU-bbbb"]
    assert done.stderr.startswith("WARNING Excluding GPU 0: NVML returned ")


def test_the_workers_own_selection_is_respected_and_logged(discover):
    done = discover(
        f"gpu GPU-aaaa {A100_BYTES} 0 NVIDIA A100-SXM4-80GB",
        f"gpu GPU-bbbb {A100_BYTES} 0 NVIDIA A100-SXM4-80GB",
        CUDA_VISIBLE_DEVICES="1",
    )
    assert [found["uuid"] for found in json.loads(done.stdout)] == ["GPU-bbbb"]
    assert done.stderr == "INFO CUDA_VISIBLE_DEVICES=1 limits the worker to 1 of 2 GPUs\n"


@pytest.mark.parametrize(
    ("cuda_visible_devices", "want_indices"),
    [
        pytest.param(None, [0, 1, 2], id="not set: all"),
        pytest.param("", [], id="empty: none"),
        pytest.param("-1", [], id="minus one: none"),
        pytest.param("NoDevFiles", [], id="NoDevFiles: none"),
        pytest.param("1", [1], id="one index"),
        pytest.param("2,0", [2, 0], id="indices keep their order"),
        pytest.param(" 2 , 0 ", [2, 0], id="spaces mean nothing"),
        pytest.param("GPU-2222", [2], id="a whole id"),
        pytest.param("GPU-1", [1], id="the unique beginning of an id"),
        pytest.param("GPU-", [], id="a beginning that several ids share"),
        pytest.param("GPU-2222,0", [2, 0], id="ids and indices mixed"),
        pytest.param("1,1,0", [1, 0], id="a GPU named twice counts once"),
        pytest.param("0,7,1", [0], id="an unknown index hides all that follow"),
        pytest.param("0,-1,1", [0], id="minus one hides all that follow"),
        pytest.param("GPU-9999", [], id="an unknown id"),
        pytest.param("MIG-1111", [], id="a MIG instance is no whole GPU"),
        pytest.param("0,", [0], id="a comma at the end"),
    ],
)
def test_which_gpus_a_value_of_cuda_visible_devices_leaves(cuda_visible_devices, want_indices):
    gpus = (gpu(0), gpu(1), gpu(2))
    visible = select_visible(gpus, cuda_visible_devices)
    assert [visible_gpu.index for visible_gpu in visible] == want_indices


@pytest.mark.gpu
def test_the_real_driver_names_its_gpus():
    """On a machine with a GPU, every GPU has an id, a name and a size, without the mock."""
    if shutil.which("nvidia-smi") is None:
        pytest.skip("needs an NVIDIA GPU with its driver")
    gpus = discover_gpus({})
    assert gpus
    for found in gpus:
        assert found.uuid.startswith("GPU-")
        assert found.product_name
        assert found.memory_total_bytes is None or found.memory_total_bytes > 2**30


OCCUPIED = """
import json, os, sys
from gpu_core.decisions.model.cluster import Node
from gpu_core.worker.process.gpus.occupied import OccupiedGpus
nodes = [Node(name="n", gpu_type="a100-80gb", gpu_ids=("GPU-aaaa", "GPU-bbbb", "GPU-cccc"))]
gpus, machine = OccupiedGpus(), os.environ["NVML_MOCK_FILE"]
def look():
    (node,) = gpus.without_occupied(nodes, held={"GPU-bbbb"})
    return sorted(node.unhealthy_gpu_ids)
seen = [look()]
with open(machine, "a") as file:
    file.writelines(f"process GPU-{name} {os.getpid()}\\n" for name in ("aaaa", "aaaa", "bbbb"))
seen.append(look())
text = open(machine).read()
open(machine, "w").write("".join(l + "\\n" for l in text.splitlines() if "process" not in l))
seen.append(look())
gpus.close()
print(json.dumps(seen))
"""


def test_a_gpu_that_another_process_computes_on_is_left_out_until_the_end(discover):
    """A notebook, say. What a run of ours holds stays, also with other users' processes there."""
    done = discover(
        *(f"gpu GPU-{letter * 4} {A100_BYTES} 0 NVIDIA A100-SXM4-80GB" for letter in "abc"),
        program=LIGHT_WORKER + OCCUPIED,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[], ["GPU-aaaa"], []]


# A line for the mock's file, and how long after the look before it the GPUs are looked at.
SILENT = {
    "a call that hangs": {
        "looks": [(0, ""), (1, "hang 1"), (1, "hang 1"), (60, "hang 1"), (1, "")],
        "want_left_out": ["", "", "", "ac", ""],
        "want_log": [
            "NVML did not respond within",
            "No runs are started",
            "NVML is available again",
        ],
    },
    "a driver that is reset": {
        # After 5 s it is asked anew, however often the worker looks.
        "looks": [(0, ""), *[(1, "count 15")] * 4, (1, ""), (1, "")],
        "want_left_out": [""] * 7,
        "want_log": ["the NVIDIA driver is not responding: GPU is lost", "NVML is available again"],
    },
    "a driver that is away for a while": {
        "looks": [(0, ""), (1, "count 15"), (5, "init 18"), (60, "init 18"), (400, "")],
        "want_left_out": ["", "", "", "ac", ""],
        "want_log": ["driver is not responding", "No runs are started", "NVML is available again"],
    },
    "a GPU that falls off the bus and is back": {
        "looks": [(0, ""), *[(1, "lost GPU-cccc 15")] * 2, (1, "")],
        "want_left_out": ["", "c", "c", ""],
        "want_log": [
            "Excluding GPU-cccc because it does not respond",
            "GPU-cccc is responding to NVML again",
        ],
    },
    "a driver that does not list processes": {
        "looks": [(0, "processes 3"), (1, "processes 999")],
        "want_left_out": ["", ""],
        "want_log": [],
    },
    "GPUs that are lost when they are asked for processes": {
        "looks": [(0, ""), (1, "processes 15")],
        "want_left_out": ["", "abc"],
        "want_log": [f"Excluding GPU-{letter * 4}" for letter in "abc"],
    },
    "a GPU of a run falls off the bus": {
        "looks": [(0, ""), (1, "lost GPU-bbbb 15")],
        "want_left_out": ["", "b"],
        "want_log": ["Excluding GPU-bbbb"],
    },
}
LOOK = """
import json, logging, os, pynvml, sys
from gpu_core.adapters.nvml import GpuDiscoveryError
from gpu_core.decisions.model.cluster import Node
from gpu_core.worker.process.gpus.gpu_usage import UsageReader
from gpu_core.worker.process.gpus.occupied import OccupiedGpus
machine, now, logged = os.environ["NVML_MOCK_FILE"], [0.0], []
gpus_of_machine = open(machine).read()
node = Node(name="n", gpu_type="a100-80gb", gpu_ids=("GPU-aaaa", "GPU-bbbb", "GPU-cccc"))
class Kept(logging.Handler):
    def emit(self, record):
        logged.append(record.getMessage())
logging.getLogger("prefect.gpu.devices").addHandler(Kept())
def left_out(gpus, reader, after_s, line):
    with open(machine + ".new", "w") as file:
        file.write(gpus_of_machine + line + "\\n")
    os.replace(machine + ".new", machine)
    now[0] += after_s
    if line != "hang 1" and reader._call._call:
        reader._call._call.exception(30)  # a call that hung has returned
    reader._answer_s = 0.1 if line == "hang 1" else 30
    (looked,) = gpus.without_occupied([node], held={"GPU-bbbb"})
    return "".join(sorted(gpu_id[-1] for gpu_id in looked.unhealthy_gpu_ids))
found = {}
for name, looks in json.loads(os.environ["LOOKS"]).items():
    logged.clear()
    reader = UsageReader(lambda: now[0], first_answer_s=30)
    gpus = OccupiedGpus(lambda: now[0], reader)
    seen = [left_out(gpus, reader, *look) for look in looks]
    found[name] = {"seen": seen, "logged": [*logged]}
    gpus.close()
opened_at_s = []
def refuse():
    opened_at_s.append(now[0])
    raise pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)
pynvml.nvmlInit = refuse
reader = UsageReader(lambda: now[0], answer_s=30)
for now[0] in range(1300):
    try:
        reader.read(["GPU-aaaa"])
    except GpuDiscoveryError:
        pass
print(json.dumps({"found": found, "opened_at_s": opened_at_s}))
"""


def test_what_nvml_does_not_say_is_not_taken_for_free(discover):
    """All cases in one process: to start one takes seconds."""
    done = discover(
        *(f"gpu GPU-{letter * 4} {A100_BYTES} 0 NVIDIA A100-SXM4-80GB" for letter in "abc"),
        program=LIGHT_WORKER + LOOK,
        LOOKS=json.dumps({name: case["looks"] for name, case in SILENT.items()}),
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    for name, case in SILENT.items():
        found = answer["found"][name]
        assert found["seen"] == case["want_left_out"], name
        assert len(found["logged"]) == len(case["want_log"]), (name, found["logged"])
        for line, want in zip(found["logged"], case["want_log"], strict=True):
            assert want in line, name
    pauses_s = [after - before for before, after in itertools.pairwise(answer["opened_at_s"])]
    assert pauses_s == [5, 10, 20, 40, 80, 160, 300, 300, 300]
