"""Manifests against the schemas that Kubernetes publishes with each version."""

import re
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from kubernetes_validate.utils import schema_contents
from referencing import Registry, Resource

VERSIONS = tuple(f"1.{minor}" for minor in range(28, 38))
FIRST_AND_LAST = (VERSIONS[0], VERSIONS[-1])


def schema_errors(manifest: dict[str, Any], versions: tuple[str, ...] = VERSIONS) -> list[str]:
    """What the published schemas of these versions say against it; unknown fields count."""
    return [
        f"{version} {error.json_path}: {error.message}"
        for version in versions
        for error in _validator(manifest["kind"], manifest["apiVersion"], version).iter_errors(
            manifest
        )
    ]


@cache
def _validator(kind: str, api_version: str, version: str) -> Draft202012Validator:
    # As kubernetes_validate does it, but once: loading takes far longer than checking.
    folder = f"kubernetes-json-schema/v{version}.0-local-strict"
    group = re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", api_version)
    schema = schema_contents(f"{folder}/{kind.lower()}-{group}.json", version)
    registry = _definitions(version) @ (Resource.from_contents(schema) @ Registry())
    return Draft202012Validator(schema, registry=registry)


@cache
def _definitions(version: str) -> Resource[Any]:
    path = f"kubernetes-json-schema/v{version}.0-local-strict/_definitions.json"
    return Resource.from_contents(schema_contents(path, version))
