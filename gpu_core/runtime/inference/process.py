"""A process that measures inference: `python -m gpu_core.runtime.inference.process WORKLOAD CORE`.

It reads a request as a line of JSON, says when it is ready, and begins at the next line, so that
several processes begin together. Standard output is for its answers: what libraries print goes to
standard error.
"""

import json
import os
import sys
from dataclasses import asdict
from typing import TextIO

from gpu_core.decisions.catalog.gpu_types import Precision
from gpu_core.runtime.inference.timing import prepared, timed
from gpu_core.runtime.inference.workload import InferenceModel, Unsupported, load_workload


def serve(workload: InferenceModel, requests: TextIO, answers: TextIO) -> None:
    """Measure what is asked for, until there is no more."""

    def answer(**fields: object) -> None:
        answers.write(json.dumps(fields) + "\n")
        answers.flush()

    answer(device=workload.device, what=workload.what)
    for line in requests:
        asked = json.loads(line)
        try:
            infer = workload.at(Precision(asked["precision"]))
        except Unsupported as why:
            answer(unsupported=str(why))
            requests.readline()
            continue
        batches, right = prepared(workload, infer, asked["batch_size"], asked["seed"])
        answer(ready=True)
        if json.loads(requests.readline())["go"]:
            answer(**asdict(timed(workload, infer, batches, right, asked["seconds"])))


def _stay_on(core: int) -> None:
    """Compute on this core only, where the system can hold a process to one."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})


if __name__ == "__main__":
    own_answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    made = load_workload(sys.argv[1])
    if made.device == "cpu":
        _stay_on(int(sys.argv[2]))
    serve(made, sys.stdin, own_answers)
