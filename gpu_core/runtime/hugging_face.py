"""Checkpoints of a Hugging Face `Trainer`, saved when they are due. Needs `transformers`.

    with checkpointing(background=True) as ckpt:
        trainer = Trainer(model, arguments, callbacks=[SaveWhenDue(ckpt)], ...)
        trainer.train(resume_from_checkpoint=restored_folder(ckpt, arguments.output_dir))

For a training in one process. Set `save_strategy="no"`: this callback decides when to save.
"""

import io
import tarfile
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from gpu_core.runtime.checkpoints import Checkpointing


class SaveWhenDue(TrainerCallback):  # type: ignore[misc] # untyped where it is not installed
    """Lets the trainer write its folder, and keeps that.

    Args:
        ckpt: The run's checkpoints.
    """

    def __init__(self, ckpt: Checkpointing) -> None:
        self._ckpt = ckpt

    def on_step_end(
        self,
        _arguments: TrainingArguments,
        _state: TrainerState,
        control: TrainerControl,
        **_more: Any,
    ) -> None:
        """After each step: one question, and the trainer saves when it is time."""
        control.should_save = control.should_save or self._ckpt.due()

    def on_prediction_step(
        self,
        _arguments: TrainingArguments,
        _state: TrainerState,
        _control: TrainerControl,
        **_more: Any,
    ) -> None:
        """After each batch of an evaluation: it is progress, and no step."""
        self._ckpt.progress.evaluated()

    def on_save(
        self,
        arguments: TrainingArguments,
        state: TrainerState,
        _control: TrainerControl,
        **_more: Any,
    ) -> None:
        """The trainer has written its folder."""
        name = f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}"
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.add(Path(arguments.output_dir, name), arcname=name)
        self._ckpt.save(packed.getvalue())


def restored_folder(ckpt: Checkpointing, output_dir: str | Path) -> str | None:
    """A folder for `Trainer.train(resume_from_checkpoint=...)`; None: begin from the start.

    Args:
        ckpt: The run's checkpoints.
        output_dir: The trainer's own; the folder is unpacked there.
    """
    packed: bytes | None = ckpt.restore(None)
    if packed is None:
        return None
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(output_dir, filter="data")
        return str(Path(output_dir, archive.getnames()[0]))
