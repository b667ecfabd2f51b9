"""Classifies digit images in bulk. This is the example of batch inference on a GPU pool."""

import mlflow
import numpy as np
from prefect import flow
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from gpu_core.runtime.tracking import tracked_run


@flow(name="classify-digits", log_prints=True)
def classify_digits(images: int = 20_000, seed: int = 1) -> dict[str, float]:
    """Classifies noisy scans of digits by their nearest neighbors, and reports the accuracy.

    Args:
        images: The number of images to classify.
        seed: The seed for the selection of images and for the noise.
    """
    scans, digits = load_digits(return_X_y=True)
    reference, held_out = slice(0, 1_000), slice(1_000, None)
    model = KNeighborsClassifier(n_neighbors=5).fit(scans[reference], digits[reference])
    random = np.random.default_rng(seed)
    with tracked_run():
        mlflow.log_params({"images": images, "seed": seed})
        right = 0
        for batch in np.array_split(np.arange(images), max(1, images // 2_000)):
            chosen = random.integers(0, len(digits[held_out]), size=len(batch))
            noisy = scans[held_out][chosen] + random.normal(0.0, 2.0, (len(batch), 64))
            right += int((model.predict(noisy) == digits[held_out][chosen]).sum())
        accuracy = right / images
        mlflow.log_metric("accuracy", accuracy)
    print(f"Classified {images:,} images, {accuracy:.2%} right")
    return {"images": float(images), "accuracy": accuracy}
