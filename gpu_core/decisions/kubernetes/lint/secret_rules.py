"""Rules about secrets: they are named, never written down."""

import re
from collections.abc import Iterator
from itertools import pairwise

from gpu_core.decisions.kubernetes.lint.findings import LintFinding, PodPlace, objects

_SECRET_WORDS = frozenset(
    {"TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "CREDENTIALS", "APIKEY"}
)
_SECRET_PAIRS = frozenset(
    {("API", "KEY"), ("ACCESS", "KEY"), ("PRIVATE", "KEY"), ("SIGNING", "KEY"), ("AUTH", "STRING")}
)
# The name speaks about a secret without holding it.
_HARMLESS_ENDINGS = frozenset({"FILE", "PATH", "DIR", "URL", "URI", "NAME", "ID", "TTL", "TYPE"})

# Shapes that well-known services give their keys, and a password inside an address.
_SECRET_VALUE = re.compile(
    r"hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|(?:AKIA|ASIA)[A-Z0-9]{16}"
    r"|sk-[A-Za-z0-9_-]{20,}|pn[ub]_[A-Za-z0-9]{20,}|xox[abprs]-[A-Za-z0-9-]{10,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----|^[a-z][a-z0-9+.-]*://[^/@:\s]*:[^/@\s]+@"
)


def literal_secrets(pod: PodPlace) -> Iterator[LintFinding]:
    """A value that all who may read the pod can read. The finding does not repeat it."""
    for path, container in pod.containers():
        for index, item in objects(container.get("env")):
            name, value = str(item.get("name", "")), item.get("value")
            if not isinstance(value, str) or not value:
                continue
            if names_a_secret(name) or _SECRET_VALUE.search(value):
                yield LintFinding(
                    code="literal-secret",
                    path=f"{path}.env[{index}]",
                    problem=(
                        f"{name} appears to be a secret, but its value is included in the manifest"
                    ),
                    remedy=(
                        "store it in a Secret and add the Secret to `kubernetes.secrets` "
                        "in the policy"
                    ),
                )


def names_a_secret(name: str) -> bool:
    """Does a variable of this name hold a secret?

    >>> names_a_secret("HF_TOKEN"), names_a_secret("TOKENIZERS_PARALLELISM")
    (True, False)
    """
    words = re.split(r"[_\-.]+", name.upper())
    if words[-1] in _HARMLESS_ENDINGS:
        return False
    pairs = set(pairwise(words))
    return bool(_SECRET_WORDS & set(words) or _SECRET_PAIRS & pairs)


SECRET_RULES = (literal_secrets,)
