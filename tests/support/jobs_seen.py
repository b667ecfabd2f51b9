"""When Jobs were created, as a watch from outside sees it."""

import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tests.support.cluster import Namespace

# prefect-kubernetes sets the first label, ours keeps it.
_RUN_LABEL = r"{.metadata.labels.prefect\.io/flow-run-id}"


@contextmanager
def jobs_seen(namespace: Namespace) -> Iterator[Mapping[str, float]]:
    """When the Job of each run was first seen, by flow run id; filled until the block ends."""
    command = namespace.cluster.kubectl_command(
        f"--namespace={namespace.name}", "get", "jobs", "--watch",
        "-o", f'jsonpath={_RUN_LABEL}{{"\\n"}}',
    )  # fmt: skip
    seen_s: dict[str, float] = {}

    def read(lines: Iterator[str]) -> None:
        for line in lines:
            seen_s.setdefault(line.strip(), time.time())

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watch:
        reader = threading.Thread(target=read, args=(watch.stdout,))
        reader.start()
        try:
            yield seen_s
        finally:
            watch.terminate()
            reader.join()
