"""torch's tensors, modules and optimizers in checkpoints. Skipped where torch is not installed."""

import os
import struct
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from gpu_core.decisions.checkpoints.manifest import PICKLE, PLAIN
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.runtime import torch_ranks
from gpu_core.runtime.plain import MalformedPlainState, read_plain, write_plain
from gpu_core.runtime.snapshot import Snapshots, restored

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch's own, at import
    torch = pytest.importorskip("torch")


def back_and_forth(state: object) -> object:
    payload_format, payload = Snapshots().take(state)
    return restored(payload_format, bytes(payload.content))


@pytest.mark.parametrize("count", [0, 3, 20_000], ids=["empty", "small", "large"])
@pytest.mark.parametrize(
    "dtype", ["float32", "bfloat16", "float16", "int64", "bool", "uint8", "complex64"]
)
def test_a_tensor_comes_back(count: int, dtype: str) -> None:
    """Every kind of number, also those that NumPy does not know, and ready to be changed."""
    tensor = torch.arange(count).to(getattr(torch, dtype)).reshape(-1, 1)
    back = back_and_forth(tensor)
    assert (back.dtype, back.shape) == (tensor.dtype, tensor.shape)
    assert torch.equal(back, tensor)
    back.fill_(1)


@pytest.mark.parametrize(
    "tensor",
    [
        pytest.param(torch.ones(()), id="a single number"),
        pytest.param(torch.arange(40_000.0).reshape(200, 200).T, id="transposed"),
        pytest.param(torch.arange(40_000.0)[::3], id="with gaps"),
        pytest.param(torch.ones(9_000, dtype=torch.complex64).conj(), id="conjugated lazily"),
        pytest.param(torch.ones(9_000, requires_grad=True), id="with a gradient"),
        pytest.param(torch.nn.Parameter(torch.ones(9_000)), id="a parameter"),
        pytest.param(torch.eye(100).to_sparse(), id="sparse"),
    ],
)
def test_unusual_tensors_come_back(tensor) -> None:
    """As they were; what is not plain is left to torch."""
    back = back_and_forth({"tensor": tensor})["tensor"]
    assert type(back) is type(tensor)
    assert back.requires_grad == tensor.requires_grad
    assert torch.equal(back.to_dense(), tensor.to_dense())


def test_a_training_goes_on_exactly() -> None:
    """Model, optimizer and random numbers: the same losses as without the interruption."""

    def step(model, optimizer) -> float:
        loss = (model(torch.rand(8, 64)) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    def new():
        model = torch.nn.Linear(64, 200)
        return model, torch.optim.Adam(model.parameters(), lr=0.01)

    torch.manual_seed(7)
    model, optimizer = new()
    step(model, optimizer)
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "random": torch.get_rng_state(),
    }
    payload_format, payload = Snapshots().take(state)
    assert payload_format == PLAIN
    want_losses = [step(model, optimizer) for _ in range(3)]

    back = restored(payload_format, bytes(payload.content))
    model, optimizer = new()
    model.load_state_dict(back["model"])
    optimizer.load_state_dict(back["optimizer"])
    torch.set_rng_state(back["random"])
    assert [step(model, optimizer) for _ in range(3)] == want_losses


def test_a_state_dict_needs_no_pickle() -> None:
    """With the versions of its modules, and with one tensor in two places as one."""
    model = torch.nn.Sequential(torch.nn.Linear(64, 200), torch.nn.BatchNorm1d(200))
    state = {"model": model.state_dict(), "again": None}
    state["again"] = state["model"]["0.weight"]
    payload_format, payload = Snapshots(refuses_pickles=True).take(state)
    back = restored(payload_format, bytes(payload.content))
    assert payload_format == PLAIN
    assert back["model"]._metadata == state["model"]._metadata
    assert back["again"] is back["model"]["0.weight"]
    assert all(torch.equal(back["model"][name], state["model"][name]) for name in state["model"])


@pytest.mark.parametrize("tensor", [torch.nn.Parameter(torch.ones(3)), torch.eye(3).to_sparse()])
def test_what_is_no_plain_tensor_is_pickled(tensor) -> None:
    """A class may hold more than numbers."""
    assert Snapshots().take({"tensor": tensor})[0] == PICKLE


@pytest.mark.parametrize("dtype_name", ["load", "Tensor", "float7", "__dict__", "float64"])
def test_a_tensor_of_an_attacker_is_refused(dtype_name: str) -> None:
    """Its type is a name that torch is asked for: nothing else than a type is taken."""
    head, _ = write_plain((dtype_name, False, 3))
    description = b"T" + bytes(head) + b"-" + struct.pack("<Q", 4) + b"\0" * 4
    with pytest.raises(MalformedPlainState, match="it holds no tensor"):
        read_plain(memoryview(description), [])


def test_without_a_process_group_there_are_no_ranks() -> None:
    """The error says what to call."""
    with pytest.raises(InvalidInput, match="init_process_group"):
        torch_ranks()


RANK = """
import sys, torch, torch.distributed as dist
rank, folder = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
from gpu_core.runtime import checkpointing, torch_ranks
seen = []
with checkpointing(interval_s=0 if rank == 0 else 1000, background=True, ranks=torch_ranks()) as c:
    state = c.restore({"step": 0, "shard": torch.full((20_000,), float(rank))})
    seen.append(state["step"])
    for step in range(state["step"], state["step"] + 3):
        state = {"step": step + 1, "shard": state["shard"] + 1}
        if c.due():
            c.save(state)
            c.wait()
    seen += [state["step"], state["shard"][0].item()]
print(*seen)
dist.destroy_process_group()
"""


def run_ranks(folder: Path, attempt: int) -> list[str]:
    meeting = folder / f"attempt-{attempt}"
    meeting.mkdir()
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PREFECT__FLOW_RUN_ID": "3f0c",
        "PREFECT_GPU_ATTEMPT": str(attempt),
        "PREFECT_GPU_ATTEMPT_ID": f"3f0c-{attempt}",
        "PREFECT_GPU_CHECKPOINT_URI": str(folder / "store"),
        "GLOO_SOCKET_IFNAME": "lo",
    }
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(rank), str(meeting)],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    printed = [process.communicate(timeout=600)[0].strip() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    return printed


def test_two_ranks_save_together_and_resume(tmp_path: Path) -> None:
    """Real processes: when one finds a save due all save, and each gets its own part back."""
    assert run_ranks(tmp_path, 1) == ["0 3 3.0", "0 3 4.0"]
    assert run_ranks(tmp_path, 2) == ["3 6 6.0", "3 6 7.0"]
