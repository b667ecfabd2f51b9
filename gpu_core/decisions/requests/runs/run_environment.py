"""The variables of the worker's environment that reach the runs that it starts on its machine.

The worker's environment holds what the worker needs, passwords of databases among it. What is not
in the list below stays with the worker.
"""

import re
from collections.abc import Mapping, Sequence

# A name that ends in `*` is a prefix. The page docs/secrets.md has the same list.
INHERITED: Mapping[str, tuple[str, ...]] = {
    "The system": (
        "HOME", "HOSTNAME", "LANG", "LANGUAGE", "LC_*", "LOGNAME", "PATH", "SHELL", "TEMP", "TERM",
        "TMP", "TMPDIR", "TZ", "TZDIR", "USER", "XDG_*",
    ),
    "Python and its environments": (
        "CONDA_*", "MAMBA_*", "PIP_*", "PIXI_*", "PYENV_*", "PYTHON*", "UV_*", "VIRTUAL_ENV*",
    ),
    "Shared libraries": ("DYLD_*", "LD_LIBRARY_PATH", "LD_PRELOAD"),
    "GPUs and numerical libraries": (
        "BLIS_*", "CUBLAS_*", "CUDA_*", "CUDNN_*", "GOMP_*", "JAX_*", "KMP_*", "MKL_*", "NCCL_*",
        "NUMBA_*", "NUMEXPR_*", "NVIDIA_*", "OMP_*", "OPENBLAS_*", "PYTORCH_*", "TF_*", "TORCH*",
        "TRITON_*", "XLA_*",
    ),
    "Communication between processes": ("FI_*", "GLOO_*", "OMPI_*", "UCX_*"),
    "Caches of models and data": (
        "HF_DATASETS_CACHE", "HF_DATASETS_OFFLINE", "HF_ENDPOINT", "HF_HOME", "HF_HUB_*",
        "TRANSFORMERS_*",
    ),
    "Proxies and certificates": (
        "ALL_PROXY", "all_proxy", "CURL_CA_BUNDLE", "HTTP_PROXY", "http_proxy", "HTTPS_PROXY",
        "https_proxy", "NO_PROXY", "no_proxy", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR",
        "SSL_CERT_FILE",
    ),
    "Checkpoints on S3": ("AWS_*",),
    "MLflow": ("MLFLOW_*",),
    "Prefect": ("PREFECT_INTEGRATIONS_*", "PREFECT_PROFILE", "PREFECT_PROFILES_PATH"),
    "Usage statistics": ("DO_NOT_TRACK",),
}  # fmt: skip
"""The variables that runs inherit, by purpose. Prefect's own settings come from Prefect, not from
here."""

WORKERS_OWN = (
    "PREFECT_API_DATABASE_*",
    "PREFECT_INTEGRATIONS_GPU_*",
    "PREFECT_INTEGRATIONS_KUBERNETES_WORKER_*",
    "PREFECT_SERVER_*",
    "PREFECT_WORKER_*",
)
"""The variables that no run inherits, also where `*` is passed on: the server's and the worker's
settings."""


_PATTERN = re.compile(r"\*|[A-Za-z_][A-Za-z0-9_]*\*?")


def parse_variable_names(text: str | Sequence[str]) -> tuple[str, ...]:
    """The variables that this list names.

    Args:
        text: Names, separated by commas or spaces, or one after the other; one that ends in `*` is
            a prefix.

    Raises:
        ValueError: One of them cannot be the name of a variable.
    """
    names = re.split(r"[,\s]+", text.strip()) if isinstance(text, str) else list(text)
    for name in filter(None, names):
        if not _PATTERN.fullmatch(name):
            raise ValueError(f"{name!r} is not a variable's name. Allowed: NAME, or PREFIX_*")
    return tuple(filter(None, names))


def inherited_environment(
    environment: Mapping[str, str], passed: Sequence[str] = ()
) -> dict[str, str]:
    """The variables of the worker that a run inherits.

    Args:
        passed: Further names; one that ends in `*` is a prefix.
    """
    names = [name for names in INHERITED.values() for name in names]
    exact, prefixes = _split([*names, *passed])
    return {
        name: value
        for name, value in without_workers_own(environment).items()
        if name in exact or name.startswith(prefixes)
    }


def without_workers_own(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables without the settings of the server and of the worker."""
    exact, prefixes = _split(WORKERS_OWN)
    return {
        name: value
        for name, value in environment.items()
        if name not in exact and not name.startswith(prefixes)
    }


def _split(names: Sequence[str]) -> tuple[frozenset[str], tuple[str, ...]]:
    """The names, and the prefixes among them."""
    prefixes = tuple(name.removesuffix("*") for name in names if name.endswith("*"))
    return frozenset(name for name in names if not name.endswith("*")), prefixes
