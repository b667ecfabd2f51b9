"""A mistake in a manifest, and the places that rules look at."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gpu_core.decisions.kubernetes.nodes.labels import capacity_type_of
from gpu_core.decisions.model.cluster import SPOT
from gpu_core.decisions.model.errors import sentences
from gpu_core.decisions.policy.kubernetes import KubernetesPolicy

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class Severity(StrEnum):
    """The certainty that something goes wrong."""

    ERROR = "error"
    """It is refused, never starts, or does harm."""
    WARNING = "warning"
    """It works, until something happens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LintFinding:
    """One mistake."""

    code: str
    """Stable: people leave out rules by their code."""
    path: str
    """The path, as in `spec.template.spec.containers[0].env[2]`."""
    problem: str
    remedy: str
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        place = f"{self.severity.value} {self.code} at {self.path}"
        return sentences(f"{place}: {self.problem}", self.remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlace:
    """A pod, or the template of one, inside a manifest."""

    path: str
    metadata: Mapping[str, Any]
    spec: Mapping[str, Any]
    policy: KubernetesPolicy

    def at(self, field: str) -> str:
        """The path of a field."""
        return f"{self.path}.{field}".removeprefix(".")

    def containers(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """All containers with their paths, those that initialize too."""
        for kind in ("containers", "initContainers"):
            for index, container in objects(self.spec.get(kind)):
                yield self.at(f"spec.{kind}[{index}]"), container

    def conditions(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The node labels that it requires, with paths: selector and required node affinity."""
        for key, value in mapping(self.spec.get("nodeSelector")).items():
            found = {"key": key, "operator": "In", "values": [value]}
            yield self.at("spec.nodeSelector"), found
        for path, term in self.node_terms():
            for index, expression in objects(term.get("matchExpressions")):
                yield f"{path}.matchExpressions[{index}]", expression

    def node_terms(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The alternatives of its required node affinity."""
        affinity = mapping(mapping(self.spec.get("affinity")).get("nodeAffinity"))
        for index, term in objects(mapping(affinity.get(_REQUIRED)).get("nodeSelectorTerms")):
            yield (
                self.at(f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms[{index}]"),
                term,
            )

    @property
    def is_spot(self) -> bool:
        """Does it require spot capacity?"""
        for _, condition in self.conditions():
            values = items(condition.get("values"))
            if condition.get("operator") != "In" or len(values) != 1:
                continue
            label = {str(condition.get("key")): str(values[0])}
            if capacity_type_of(label) == SPOT:
                return True
        return False

    @property
    def is_pinned(self) -> bool:
        """Is every alternative a node that exists, by its name?"""
        terms = [term for _, term in self.node_terms()]
        return bool(terms) and all(term.get("matchFields") for term in terms)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlace:
    """A Job, or the template of one, inside a manifest."""

    path: str
    spec: Mapping[str, Any]
    policy: KubernetesPolicy

    @property
    def pod_spec(self) -> Mapping[str, Any]:
        """Its pod's spec."""
        return mapping(mapping(self.spec.get("template")).get("spec"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectPlace:
    """A whole manifest."""

    manifest: Mapping[str, Any]
    policy: KubernetesPolicy

    @property
    def spec(self) -> Mapping[str, Any]:
        """Its spec."""
        return mapping(self.manifest.get("spec"))


def mapping(value: Any) -> Mapping[str, Any]:
    """The value, or an empty mapping where there is none: the schema check speaks about that."""
    return value if isinstance(value, Mapping) else {}


def items(value: Any) -> Sequence[Any]:
    """The value, or an empty list where there is none."""
    return value if isinstance(value, list | tuple) else ()


def objects(value: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The objects of a list, each with its place in it."""
    return ((i, item) for i, item in enumerate(items(value)) if isinstance(item, Mapping))
