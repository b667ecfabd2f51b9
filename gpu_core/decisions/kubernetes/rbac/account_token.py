"""The ServiceAccount that a token belongs to."""

import base64
import json
from typing import NamedTuple

_SUBJECT = "system:serviceaccount:"


class ServiceAccount(NamedTuple):
    """A ServiceAccount, and the pod that its token was made for."""

    namespace: str
    name: str
    pod: str | None
    """None: the token is not bound to a pod, as before Kubernetes 1.21."""


def account_of(token: str) -> ServiceAccount | None:
    """The account of this token; None: it is no ServiceAccount's.

    Nothing is verified: it is the caller's own token, which the API server verifies.

    Args:
        token: As in an `Authorization` header, with or without `Bearer`.

    Source: KEP-1205, "Bound Service Account Tokens" (`kubernetes.io` claims).
    """
    parts = token.removeprefix("Bearer ").split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        subject = str(claims["sub"])
    except (ValueError, KeyError, TypeError):
        return None
    namespace, _, name = subject.removeprefix(_SUBJECT).partition(":")
    if not subject.startswith(_SUBJECT) or not namespace or not name:
        return None
    return ServiceAccount(namespace, name, _pod_in(claims))


def _pod_in(claims: dict[str, object]) -> str | None:
    found: object = claims
    for key in ("kubernetes.io", "pod", "name"):
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, str) and found else None
