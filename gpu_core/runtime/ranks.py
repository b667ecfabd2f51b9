"""The processes of one run that save together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpu_core.decisions.model.errors import InvalidInput

Exchange = Callable[[int], Sequence[int]]
"""Gives every rank the numbers of all of them, in any order. All ranks have to call it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """The rank of this process, and how ranks agree.

    Raises:
        InvalidInput: The rank is none of them.
    """

    rank: int = 0
    """From 0; rank 0 completes each checkpoint when all parts are there."""
    count: int = 1
    exchange: Exchange | None = None
    """None: they do not talk. Then each `save` needs its `step`, and `due` cannot be asked."""

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.count:
            raise InvalidInput(
                "ranks.rank", "is out of range", got=self.rank, allowed=f"0 to {self.count - 1}"
            )

    @property
    def is_alone(self) -> bool:
        """Is it the only rank?"""
        return self.count == 1

    def numbers(self, own: int) -> Sequence[int]:
        """The numbers of all ranks.

        Raises:
            InvalidInput: The ranks cannot talk (field `ranks.exchange`).
        """
        if self.is_alone:
            return (own,)
        if self.exchange is None:
            raise InvalidInput(
                "ranks.exchange",
                "is needed where ranks decide together when to save",
                remedy="give one, such as torch_ranks() does, or save at the same steps on every "
                "rank with save(state, step=step)",
            )
        return self.exchange(own)


def torch_ranks() -> Ranks:
    """The ranks of `torch.distributed`, which talk over its default process group.

    Raises:
        InvalidInput: The process group is not initialized.
    """
    import torch
    import torch.distributed

    if not torch.distributed.is_initialized():
        raise InvalidInput(
            "ranks", "are unknown", remedy="call torch.distributed.init_process_group first"
        )
    count = torch.distributed.get_world_size()
    # NCCL moves only what lies on a GPU.
    device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"

    def exchange(number: int) -> list[int]:
        own = torch.tensor([number], dtype=torch.int64, device=device)
        numbers = torch.empty(count, dtype=torch.int64, device=device)
        torch.distributed.all_gather_into_tensor(numbers, own)
        return [int(each) for each in numbers.tolist()]

    return Ranks(rank=torch.distributed.get_rank(), count=count, exchange=exchange)
