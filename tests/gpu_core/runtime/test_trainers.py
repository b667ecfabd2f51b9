"""Lightning's and Hugging Face's trainers go on where they were ended. Skipped without them."""

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_core.decisions.requests.runs.run_context import RunContext
from gpu_core.runtime import checkpointing

StartAttempt = Callable[..., RunContext]
pytestmark = pytest.mark.filterwarnings("ignore")  # the frameworks' own


@pytest.mark.parametrize("background", [False, True])
def test_a_lightning_training_goes_on(
    start_attempt: StartAttempt, tmp_path: Path, background: bool
) -> None:
    """Weights and steps as without the interruption."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch = pytest.importorskip("torch")
        pl = pytest.importorskip("lightning.pytorch")
        from gpu_core.runtime.lightning import SaveWhenDue, restored_path

    class Model(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch, _number):
            return (self.layer(batch) ** 2).mean()

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=0.1)

    def train(max_steps: int, interval_s: float | None) -> tuple[int, list[float]]:
        torch.manual_seed(7)
        model, data = Model(), torch.utils.data.DataLoader(torch.ones(64, 4), batch_size=8)
        with checkpointing(interval_s=interval_s, background=background) as ckpt:
            trainer = pl.Trainer(
                max_steps=max_steps,
                callbacks=[SaveWhenDue(ckpt)],
                accelerator="cpu",
                logger=False,
                enable_checkpointing=False,
                enable_progress_bar=False,
                enable_model_summary=False,
                default_root_dir=tmp_path,
            )
            path = restored_path(ckpt, tmp_path)
            began_at = 0 if path is None else torch.load(path, weights_only=False)["global_step"]
            trainer.fit(model, data, ckpt_path=path)
        return began_at, model.layer.weight.tolist()

    start_attempt(1, flow_run_id="whole")
    _, want_weights = train(6, interval_s=10_000)
    start_attempt(1)
    train(4, interval_s=0)
    start_attempt(2)
    began_at, weights = train(6, interval_s=10_000)
    # In the background, what is due while a save is under way is skipped.
    assert began_at in (range(1, 5) if background else [4])
    assert weights == want_weights


def test_a_hugging_face_training_goes_on(start_attempt: StartAttempt, tmp_path: Path) -> None:
    """Weights and steps as without the interruption."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch = pytest.importorskip("torch")
        transformers = pytest.importorskip("transformers")
        from gpu_core.runtime.hugging_face import SaveWhenDue, restored_folder

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def forward(self, x, labels=None):
            return {"loss": ((self.layer(x) - labels) ** 2).mean()}

    def train(name: str, max_steps: int, interval_s: float) -> tuple[str | None, list[float]]:
        torch.manual_seed(7)
        arguments = transformers.TrainingArguments(
            output_dir=str(tmp_path / name),
            max_steps=max_steps,
            per_device_train_batch_size=8,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            lr_scheduler_type="constant",
        )
        data = [{"x": torch.ones(4), "labels": torch.zeros(1)}] * 64
        model = Model()
        with checkpointing(interval_s=interval_s) as ckpt:
            callbacks = [SaveWhenDue(ckpt)]
            trainer = transformers.Trainer(
                model, arguments, train_dataset=data, callbacks=callbacks
            )
            folder = restored_folder(ckpt, arguments.output_dir)
            trainer.train(resume_from_checkpoint=folder)
        return folder and Path(folder).name, model.layer.weight.tolist()

    start_attempt(1, flow_run_id="whole")
    _, want_weights = train("whole", 6, interval_s=10_000)
    start_attempt(1)
    train("first", 4, interval_s=0)
    start_attempt(2)
    assert train("second", 6, interval_s=10_000) == ("checkpoint-4", want_weights)
