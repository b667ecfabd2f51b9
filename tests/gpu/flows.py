"""The flows that the tests with a GPU deploy."""

import os
import time
from pathlib import Path
from typing import Any

from prefect import flow

from gpu_core.runtime import checkpointing, micro_batch

_WIDTH, _LAYERS, _BATCH = 2048, 8, 8192
# Of the card's memory: two such parts do not fit, one does.
_PART_OF_MEMORY = 0.6


class Training:
    """A network that learns to repeat its input; the same seed gives the same losses to the bit."""

    def __init__(self) -> None:
        import torch

        torch.use_deterministic_algorithms(True)
        torch.manual_seed(0)
        layers = [torch.nn.Linear(_WIDTH, _WIDTH) for _ in range(_LAYERS)]
        self._model = torch.nn.Sequential(*layers).to("cuda")
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=0.01, momentum=0.9)
        self._data = torch.Generator("cuda")

    def step(self, number: int) -> float:
        """One step on the data of this number; its loss."""
        import torch

        self._data.manual_seed(number)
        batch = torch.randn(_BATCH, _WIDTH, device="cuda", generator=self._data)
        self._optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(self._model(batch), batch)
        loss.backward()
        self._optimizer.step()
        return loss.item()

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds."""
        return {"model": self._model.state_dict(), "optimizer": self._optimizer.state_dict()}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self._model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])


@flow
def train(folder: str, steps: int) -> None:
    """Train for so many steps, and note the loss of each with its attempt."""
    training = Training()
    with checkpointing() as ckpt:
        state = ckpt.restore({"step": 0})
        if state["step"]:
            training.load(state["training"])
        for number in range(state["step"], steps):
            loss = training.step(number)
            with Path(folder, f"losses-{os.environ['PREFECT_GPU_ATTEMPT']}").open("a") as losses:
                losses.write(f"{number} {loss.hex()}\n")
            if ckpt.due():
                ckpt.save({"step": number + 1, "training": training.state()})


@flow
def fill_memory(folder: str) -> None:
    """Take more memory than the card has, unless the micro-batch is smaller."""
    import torch

    parts = micro_batch(2).size
    part_bytes = int(torch.cuda.get_device_properties(0).total_memory * _PART_OF_MEMORY)
    held = [torch.ones(part_bytes, dtype=torch.uint8, device="cuda") for _ in range(parts)]
    Path(folder, "held").write_text(str(sum(int(part[-1]) for part in held)))


@flow
def spin_once(folder: str) -> None:
    """Train and save; the first attempt then starts a kernel that does not end."""
    import torch

    training = Training()
    with checkpointing() as ckpt:
        begin = ckpt.restore({"step": 0})["step"]
        Path(folder, f"began-{os.environ['PREFECT_GPU_ATTEMPT']}").write_text(str(begin))
        for number in range(begin, begin + 200):
            training.step(number)
            ckpt.due()
        ckpt.save({"step": begin + 200})
        if begin == 0:
            torch.cuda._sleep(2**62)  # clock cycles: decades
            torch.cuda.synchronize()
    Path(folder, "ended").touch()


@flow
def hold(folder: str) -> None:
    """Compute for a moment, save, and then hold the GPU and its memory without work."""
    import torch

    with checkpointing() as ckpt:
        held = torch.ones(2**30, dtype=torch.uint8, device="cuda")
        ckpt.due()
        ckpt.save({"sum": int(held[:1000].sum())})
    while not Path(folder, "release").exists():
        time.sleep(0.5)  # the run holds its GPU; nothing is waited for that must be quick
