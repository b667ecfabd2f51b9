"""What a flow imports inside a run."""

from gpu_core.runtime.checkpoints import Checkpointing, SavedCheckpoint, checkpointing
from gpu_core.runtime.tracking import tracked_run

__all__ = ["Checkpointing", "SavedCheckpoint", "checkpointing", "tracked_run"]
