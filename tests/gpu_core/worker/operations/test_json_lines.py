"""Structured logs: one JSON object for each line, in a process with Prefect's logging."""

import json
import subprocess
import sys

from tests.support.light_worker import LIGHT_WORKER

_LOGGING = """
import logging, warnings
from prefect.logging.configuration import setup_logging
from prefect.settings import get_current_settings

setup_logging()
from gpu_core.worker.operations.json_lines import log_json_lines
from gpu_core.worker.startup.secrecy import Secrets, hidden_in_logs

log_json_lines("gpus", "worker-1")
secrets = Secrets()
secrets.add(["top-secret-value"])
log = logging.getLogger("prefect.gpu.scheduler")
with hidden_in_logs(secrets):
    log.info("Run %r starts [/] on %s\\nand more", "a", "n1", extra={"attempt": 2, "node": "n1"})
    log.warning("An object", extra={"odd": object()})
    try:
        raise ValueError("the key is top-secret-value")
    except ValueError:
        log.exception("It failed with %s", "top-secret-value")
    warnings.warn("careful", stacklevel=1)
logging.getLogger("uvicorn").error("of a library")
"""


def test_each_line_is_one_object_with_its_fields_and_without_secrets(tmp_path):
    # Prefect's own handlers, as `prefect worker start` has them; markup would eat the brackets.
    environment = {
        "HOME": str(tmp_path),
        "PREFECT_HOME": str(tmp_path),
        "PREFECT_LOGGING_MARKUP": "true",
        "PREFECT_LOGGING_TO_API_ENABLED": "false",
    }
    done = subprocess.run(
        [sys.executable, "-c", LIGHT_WORKER + _LOGGING],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    found = [json.loads(line) for line in done.stderr.splitlines()]

    assert [each["message"].split("\n")[0] for each in found][:3] == [
        "Run 'a' starts [/] on n1",
        "An object",
        "It failed with ***",
    ]
    first, _, failed, warned, library = found
    assert first | {"timestamp": ""} == {
        "timestamp": "",
        "level": "INFO",
        "logger": "prefect.gpu.scheduler",
        "message": "Run 'a' starts [/] on n1\nand more",
        "pool": "gpus",
        "worker_name": "worker-1",
        "attempt": 2,
        "node": "n1",
    }
    assert first["timestamp"].endswith("+00:00")
    assert "ValueError: the key is ***" in failed["exception"]
    assert "careful" in warned["message"]
    assert (library["logger"], library["level"]) == ("uvicorn", "ERROR")
    assert "top-secret-value" not in done.stderr
    assert done.stdout == ""
