"""The API that a flow imports inside a run."""

from gpu_core.runtime.checkpoints import Checkpointing, checkpointing
from gpu_core.runtime.micro_batch import MicroBatch, micro_batch
from gpu_core.runtime.progress import Progress, reporting_progress
from gpu_core.runtime.ranks import Ranks, torch_ranks
from gpu_core.runtime.saving import SavedCheckpoint
from gpu_core.runtime.tracking import tracked_run

__all__ = [
    "Checkpointing",
    "MicroBatch",
    "Progress",
    "Ranks",
    "SavedCheckpoint",
    "checkpointing",
    "micro_batch",
    "reporting_progress",
    "torch_ranks",
    "tracked_run",
]
