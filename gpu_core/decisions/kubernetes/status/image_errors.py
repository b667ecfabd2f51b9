"""Images that can never be pulled: those that do not exist, or that the cluster may not have."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

# Reasons of a waiting container (kubelet, `pkg/kubelet/images/types.go`, 1.34).
_INVALID_NAME = "InvalidImageName"
_PULL_REASONS = frozenset({"ErrImagePull", "ImagePullBackOff"})

# The words of containerd, CRI-O, Docker and of registries (OCI distribution specification 1.1,
# "Error codes"). What may pass comes first: a message often quotes more than one error.
_MAY_PASS = re.compile(
    r"no match for platform|no such host|dial tcp|i/o timeout|TLS handshake|x509:|connection re"
    r"|toomanyrequests|\b429\b|\b50[0-9]\b|deadline exceeded|token has expired|unexpected EOF"
    # A node's disk, and the store of its runtime.
    r"|no space left|input/output error|read-only file system|content digest|extract layer",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"unauthorized|authorization failed|authentication required|access denied|no basic auth"
    r"|access forbidden|40[13] (?:unauthorized|forbidden)|may require authorization|^denied\b"
    r"|insufficient_scope",
    re.IGNORECASE,
)
_MISSING = re.compile(
    r"not found|manifest unknown|name unknown|MANIFEST_UNKNOWN|NAME_UNKNOWN|does not exist"
    r"|no such image|invalid reference format",
    re.IGNORECASE,
)
_RPC = re.compile(r"rpc error: code = \w+ desc = ")

# A message may quote the answer of a registry.
_LONGEST_WORDS = 300


class _Pull(NamedTuple):
    """A container whose image is not there yet."""

    container: str
    image: str
    reason: str
    words: str


def why_never_pulled(
    pods: Sequence[Mapping[str, Any]],
    events: Sequence[Mapping[str, Any]] = (),
    *,
    is_new_node: bool = False,
) -> str | None:
    """The reason why an image of these pods can never be pulled, with the remedy.

    An image that one of them has is there: then it is a matter of the other's node.

    Args:
        events: Of them, oldest first. Before Kubernetes 1.32 a container that waits for its next
            pull does not say in its status why the last one failed.
        is_new_node: Whether their nodes have just been made: they may lack credentials at first.

    Returns:
        Sentences for the run's page; None: none of them, or it may be pulled yet.
    """
    had = frozenset(image for pod in pods for image in _pulled(pod))
    for pull in (found for pod in pods for found in _waiting(pod)):
        if pull.image in had:
            continue
        if pull.reason == _INVALID_NAME:
            return _sentence(
                pull, "is not a valid name", "Ensure that the `image` job variable is correct"
            )
        words = f"{pull.words} {_last_failure(events, pull.image)}"
        if _MAY_PASS.search(words.replace(pull.image, "")):
            continue
        # Registries answer alike for what is private and for what does not exist.
        if _DENIED.search(words):
            if is_new_node:
                continue
            remedy = (
                "Ensure that the `image` job variable is correct and that a pull "
                "secret for its registry exists"
            )
            return _sentence(pull._replace(words=words), "was denied by its registry", remedy)
        if _MISSING.search(words):
            remedy = (
                "Ensure that the `image` job variable is correct and that the image has been pushed"
            )
            return _sentence(pull._replace(words=words), "does not exist", remedy)
    return None


def _sentence(pull: _Pull, what: str, remedy: str) -> str:
    words = _RPC.sub("", " ".join(pull.words.split()))[:_LONGEST_WORDS].strip(" .")
    detail = f": {words}" if words else ""
    return f"Image {pull.image!r} of container {pull.container} {what}{detail}. {remedy}."


def _waiting(pod: Mapping[str, Any]) -> Iterator[_Pull]:
    images = _images(pod)
    for name, status in _statuses(pod):
        waiting = (status.get("state") or {}).get("waiting") or {}
        reason = waiting.get("reason", "")
        if reason == _INVALID_NAME or reason in _PULL_REASONS:
            image = images.get(name) or str(status.get("image", ""))
            yield _Pull(name, image, reason, str(waiting.get("message") or ""))


def _pulled(pod: Mapping[str, Any]) -> Iterator[str]:
    images = _images(pod)
    return (
        images[name] for name, status in _statuses(pod) if status.get("imageID") and name in images
    )


def _images(pod: Mapping[str, Any]) -> Mapping[str, str]:
    spec = pod.get("spec") or {}
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    return {str(each.get("name")): str(each.get("image", "")) for each in containers}


def _statuses(pod: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    status = pod.get("status") or {}
    for kind in ("initContainerStatuses", "containerStatuses"):
        for each in status.get(kind) or ():
            yield str(each.get("name")), each


def _last_failure(events: Iterable[Mapping[str, Any]], image: str) -> str:
    """The kubelet's message on its last try to pull this image; empty: there is none."""
    start = f'Failed to pull image "{image}": '
    said = [str(event.get("message", "")) for event in events if event.get("reason") == "Failed"]
    return next((text.removeprefix(start) for text in reversed(said) if text.startswith(start)), "")
