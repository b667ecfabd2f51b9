"""Train a digit classifier, resumable at any step: the example of a training on a GPU pool.

The data set ships inside scikit-learn (1,797 real scans of handwritten digits, UCI 1998), and
the classifier runs on the CPU, so that the example runs everywhere. What it does with checkpoints
is what a training on a GPU does.
"""

import hashlib
from dataclasses import dataclass

import mlflow
import numpy as np
from prefect import flow
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from gpu_core.runtime import checkpointing
from gpu_core.runtime.tracking import tracked_run


@dataclass
class Training:
    """Everything the next epoch depends on: saved whole, so that a resumed training is the same."""

    epoch: int
    model: MLPClassifier


@flow(name="train-digits", log_prints=True)
def train_digits(
    hidden_units: int = 512,
    learning_rate: float = 0.001,
    epochs: int = 240,
    seed: int = 7,
) -> dict[str, float | str]:
    """Trains a two-layer perceptron on digits, starting from the latest checkpoint if one exists.

    Args:
        hidden_units: The number of units in the first hidden layer. The second layer has half as
            many.
        learning_rate: The learning rate of the Adam optimizer.
        epochs: The number of passes over the training data.
        seed: The seed for the split, the initial weights and the order of the data.
    """
    images, digits = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(
        images / 16.0, digits, test_size=0.2, random_state=seed, stratify=digits
    )
    new_model = MLPClassifier(
        hidden_layer_sizes=(hidden_units, hidden_units // 2),
        learning_rate_init=learning_rate,
        batch_size=64,
        random_state=seed,
    )
    with tracked_run(), checkpointing() as ckpt:
        mlflow.log_params(
            {
                "hidden_units": hidden_units,
                "learning_rate": learning_rate,
                "epochs": epochs,
                "seed": seed,
            }
        )
        state = ckpt.restore(Training(epoch=0, model=new_model))
        if state.epoch:
            print(f"Resumed after epoch {state.epoch} of {epochs}")
        for epoch in range(state.epoch, epochs):
            state.model.partial_fit(train_x, train_y, classes=np.arange(10))
            state.epoch = epoch + 1
            if state.epoch % 10 == 0:
                mlflow.log_metric("train_loss", state.model.loss_, step=state.epoch)
            if ckpt.due():
                ckpt.save(state)
                print(f"Saved after epoch {state.epoch}")
        metrics = {
            "test_accuracy": float(state.model.score(test_x, test_y)),
            "test_log_loss": float(log_loss(test_y, state.model.predict_proba(test_x))),
            "final_train_loss": float(state.model.loss_),
        }
        mlflow.log_metrics(metrics)
        digest = weights_digest(state.model)
        mlflow.set_tag("weights_sha256", digest)
    print(f"Test accuracy {metrics['test_accuracy']:.4f}, weights {digest[:12]}")
    return {**metrics, "weights_sha256": digest}


def weights_digest(model: MLPClassifier) -> str:
    """A fingerprint of all weights: two trainings with the same one learned exactly the same."""
    digest = hashlib.sha256()
    for array in [*model.coefs_, *model.intercepts_]:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
