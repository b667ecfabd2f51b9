"""Checkpoints of a Lightning training, saved when they are due. Needs `lightning`.

    with checkpointing(background=True) as ckpt:
        trainer = Trainer(callbacks=[SaveWhenDue(ckpt)])
        trainer.fit(model, data, ckpt_path=restored_path(ckpt, folder))

For a training in one process. Several processes save with `Ranks` and a loop of their own.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from gpu_core.runtime.checkpoints import Checkpointing

_NAME = "restored.ckpt"


class SaveWhenDue(Callback):  # type: ignore[misc] # untyped where it is not installed
    """Saves what the trainer would write to a file: model, optimizers, loops, loggers.

    Args:
        ckpt: The run's checkpoints.
    """

    def __init__(self, ckpt: Checkpointing) -> None:
        self._ckpt = ckpt

    def on_train_batch_end(
        self, trainer: Trainer, _module: LightningModule, *_outputs: Any, **_more: Any
    ) -> None:
        """After each batch: one question, and a save when it is time."""
        if not self._ckpt.due():
            return
        with TemporaryDirectory() as folder:
            path = Path(folder, _NAME)
            trainer.save_checkpoint(path)
            self._ckpt.save(path.read_bytes())

    def on_validation_batch_end(
        self, _trainer: Trainer, _module: LightningModule, *_outputs: Any, **_more: Any
    ) -> None:
        """After each batch of an evaluation: it is progress, and no step."""
        self._ckpt.progress.evaluated()


def restored_path(ckpt: Checkpointing, folder: Path) -> Path | None:
    """A file for `Trainer.fit(ckpt_path=...)`; None: this run begins from the start.

    Args:
        ckpt: The run's checkpoints.
        folder: Where the file is written.
    """
    content: bytes | None = ckpt.restore(None)
    if content is None:
        return None
    path = folder / _NAME
    path.write_bytes(content)
    return path
