"""Job variables of all kinds from a seed: valid ones, those at the edges, and garbage."""

import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from gpu_core.decisions.kubernetes.manifests import commands
from gpu_core.decisions.kubernetes.manifests.resources import pod_size
from gpu_core.decisions.kubernetes.variables.variables import PodRequest, parse_pod_request
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.pydantic_errors import known_names
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.requests.runs.run_workload import run_limits, workload_from_request
from gpu_core.decisions.requests.variables.job_variables import GpuRequest, parse_request

NAMES = (*known_names(GpuRequest), *known_names(PodRequest))

_NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
_DURATIONS = (1, 90, "90m", "1h30m", "2d", "3650d", "0", 315_360_000)

VALID: Mapping[str, tuple[Any, ...]] = {
    "team": ("vision", "x" * 200, "研究"),
    "project": ("p",),
    "workload_type": ("training", "interactive"),
    "gpu_type": ("auto", "t4", "a10g", ["t4", "a10g"]),
    "gpu_count": (0, 1, 2, 64),
    "gpu_fraction": (0.5, 1, 1e-300),
    "mig_profile": ("1g.10gb", "7g.9999gb"),
    "nodes": (1, 2, 64),
    "gpu_memory_gib": (1, 80, 4096),
    "work": (
        "fine-tune a 7B model with LoRA",
        "object detection on 10 million images",
        "pretrain a 1000T model on 1000t tokens",
        "classify 1 sentence with bert",
    ),
    "capacity_type": ("auto", "spot", "on-demand", "reserved"),
    "expected_duration": _DURATIONS,
    "deadline": ("6h", "2199-12-31T23:59Z", "1970-01-01T00:00Z", "2026-03-04T12:00+14:00", "3650d"),
    "budget_usd": (0.01, 1, 1e9, 1e-6),
    "max_duration": _DURATIONS,
    "min_runtime": _DURATIONS,
    "checkpoint_uri": ("s3://bucket/x", "/tmp/x", "s3://" + "x" * 2000),  # a text
    "checkpoint_interval": ("auto", *_DURATIONS),
    "max_failures": (1, 1000),
    "max_interruptions": (1, 100_000),
    "preemptible": (True, False),
    "user": ("anna",),
    "sweep": ("s",),
    "model": ("m",),
    "gpu_priority": ("low", "high", "nobody knows it"),
    "cpu_per_gpu": (1, 0.001, 256),
    "memory_gib_per_gpu": (1, 0.001, 4096),
    "cpu_request": ("500m", 4, "8"),
    "cpu_limit": ("16", 4.5, "1e3"),
    "memory_request": ("4Gi", "1Mi", 2**33),
    "memory_limit": ("64Gi", "100G"),
    "finished_job_ttl": (60, 86_400),
    "stream_output": (True, False),
    "shm_size": ("8Gi", "1", "1e3"),
    "volumes": ([], [{"claim": "c", "mount_path": "/c"}]),
    "model_cache": (True, False),
    "image": ("python:3.11",),
    "command": ("", "prefect flow-run execute", ["a", "b"]),
    "container_command": ("python train.py", ["a"]),
    "framework": ("none", "torchrun", "spark"),
}

# Beyond the edges: each has once gone through the checks, and failed behind them.
BEYOND: Mapping[str, tuple[Any, ...]] = {
    "team": ("a\0b",),
    "work": (f"fine-tune a {'9' * 400}B model", f"fine-tune a 7B model on {'9' * 400} tokens"),
    "deadline": ("9999-12-31T23:59-14:00", "0001-01-01T00:00+14:00", "9999-12-31T23:59Z"),
    "budget_usd": (1e308, 10**400, 1e13),
    "gpu_type": ([[]] * 1000,),
    # Python's JSON writes and reads them; PostgreSQL's does not.
    "command": (["train", float("inf")],),
    "volumes": ([{"name": "data", "emptyDir": {"sizeLimit": float("nan")}}],),
}

_INTEGERS = (0, -1, 1, 2**31, 2**63, -(2**63), 2**64, 10**400, -(10**4000), 10**5000)


def generated(rng: random.Random) -> dict[str, Any]:
    """Some variables: most are valid, so that what is behind the checks is reached, too."""
    count = rng.choice((0, 1, 1, 2, 3, 5, len(NAMES)))
    names = rng.sample(NAMES, count)
    if rng.random() < 0.05:
        names.append(_text(rng))
    valid_part = rng.choice((1.0, 0.9, 0.0))
    return {name: _value(rng, name, valid_part) for name in names}


def read(variables: Mapping[str, Any], policy: Policy) -> str | None:
    """Why would these variables be refused? None: they are not. As both worker types read them."""
    try:
        request = parse_request(variables, known_names(PodRequest))
        workload = workload_from_request(
            request,
            workload_id="id",
            name="run",
            queue="medium",
            submitted_at=_NOON,
            policy=policy,
        )
        run_limits(request, policy)
        pod = commands.with_container_command(
            parse_pod_request(variables), "train", has_deployment=True
        )
        commands.require_a_use(pod, "train", workload.shape.nodes, has_deployment=True)
        pod_size(workload.shape, pod, policy.kubernetes, None)
    except InvalidInput as error:
        return str(error)
    return None


def _value(rng: random.Random, name: str, valid_part: float) -> Any:
    if rng.random() < valid_part:
        return rng.choice(VALID[name]) if name in VALID else "x"
    if name in BEYOND and rng.random() < 0.5:
        return rng.choice(BEYOND[name])
    return _mutated(rng, name) if rng.random() < 0.4 else garbage(rng)


def _mutated(rng: random.Random, name: str) -> Any:
    """A valid value with something wrong about it."""
    value = rng.choice(VALID.get(name, ("x",)))
    if isinstance(value, str):
        place = rng.randint(0, len(value))
        return value[:place] + _text(rng) + value[place:]
    if isinstance(value, list):
        return [*value, garbage(rng)]
    return rng.choice(
        (-value, value * 10**30, float(value) + 0.5, str(value), [value], {"a": value})
    )


def garbage(rng: random.Random, levels: int = 3) -> Any:
    """A JSON value of any kind, and what Python's reader makes of documents beyond the standard."""
    kinds: tuple[Callable[[], Any], ...] = (
        lambda: None,
        lambda: rng.random() < 0.5,
        lambda: rng.choice(
            (0, -1, 1, 2**31, 2**63, -(2**63), 2**64, 10**400, -(10**4000), 10**5000)
        ),
        lambda: rng.choice(
            (0.0, -0.0, 0.5, 1e-320, 1e308, -1e308, float("inf"), float("-inf"), float("nan"))
        ),
        lambda: _text(rng),
        lambda: _moment(rng),
        lambda: _deep(rng.choice((10, 200, 5000))),
        lambda: [garbage(rng, levels - 1) for _ in range(rng.randint(0, 4))] if levels else [],
        lambda: (
            {_text(rng): garbage(rng, levels - 1) for _ in range(rng.randint(0, 4))}
            if levels
            else {}
        ),
    )
    return rng.choice(kinds)()


def _text(rng: random.Random) -> str:
    pieces = (
        "",
        " ",
        "a",
        "auto",
        "\0",
        "\n",
        "\x1b[2J",
        "\u202e",
        "\ud800",
        "\U0010ffff",
        "é",
        "٣",
        "-",
        "../",
        "%s{}",
        "'; drop table runs; --",
        "9" * 400,
        "9" * 5000,
        "1e999",
        "nan",
        "lora " * 50,
        "7b " * 300,
    )
    text = "".join(rng.choices(pieces, k=rng.randint(0, 3)))
    return text * (10**5 // len(text)) if text and rng.random() < 0.02 else text


def _moment(rng: random.Random) -> str:
    year = rng.choice(("0000", "0001", "1969", "1970", "2026", "2199", "2200", "9999", "10000"))
    day = rng.choice(("01-01", "12-31", "02-29", "13-01"))
    zone = rng.choice(("", "Z", "+14:00", "-14:00", "+23:59", "-23:59:59.999999"))
    return f"{year}-{day}T{rng.choice(('00:00', '23:59:59.999999', '24:00'))}{zone}"


def _deep(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value
