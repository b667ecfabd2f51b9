"""What a flow imports inside a run."""

from gpu_core.runtime.checkpoints import Checkpointing, checkpointing
from gpu_core.runtime.ranks import Ranks, torch_ranks
from gpu_core.runtime.saving import SavedCheckpoint
from gpu_core.runtime.tracking import tracked_run

__all__ = [
    "Checkpointing",
    "Ranks",
    "SavedCheckpoint",
    "checkpointing",
    "torch_ranks",
    "tracked_run",
]
