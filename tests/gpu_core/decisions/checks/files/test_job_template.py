"""Base job templates: what the form of a pool may not have, and the Job that a run gets from it."""

from copy import deepcopy
from typing import Any

import pytest

from gpu_core.decisions.checks.files.job_template import job_findings, template_findings
from gpu_core.testing.builders.manifests import make_kubernetes_policy, template

NEWEST: dict[str, Any] = {
    "variables": {"properties": {"gpu_count": {"default": 1}, "nodes": {}, "shm_size": {}}},
    "job_configuration": {"nodes": "{{ nodes }}"},
}


def changed(**properties: Any) -> dict[str, Any]:
    """The newest template with these variables; None: without that one."""
    found = deepcopy(NEWEST)
    known = {**found["variables"]["properties"], **properties}
    found["variables"]["properties"] = {name: v for name, v in known.items() if v is not None}
    return found


@pytest.mark.parametrize(
    ("current", "placeholders", "want"),
    [
        pytest.param(NEWEST, {"nodes"}, [], id="as new"),
        pytest.param(
            {"variables": {}, "job_configuration": {}},
            set(),
            [("error", "variables.properties", "is not a mapping")],
            id="no variables",
        ),
        pytest.param(
            NEWEST,
            {"node"},
            [("error", "job_configuration", "'node', which variables.properties does not have. "
              "Did you mean 'nodes'?")],
            id="a misspelled placeholder",
        ),
        pytest.param(
            changed(shm_size=None),
            {"nodes"},
            [("warning", "variables.properties", "lacks 1 job variable of this version (shm")],
            id="of a version before",
        ),
        pytest.param(
            changed(gpu_count={"default": "many"}, shm_size={"default": "8 tons"}),
            {"nodes"},
            [
                ("error", "variables.properties.gpu_count.default", "is not a whole number"),
                ("error", "variables.properties.shm_size.default", "(got '8 tons')"),
            ],
            id="defaults that no run can have",
        ),
        pytest.param(changed(zone={"default": "a"}), {"zone"}, [], id="a variable of their own"),
    ],
)  # fmt: skip
def test_what_the_form_may_not_have(
    current: dict[str, Any], placeholders: set[str], want: list[tuple[str, str, str]]
) -> None:
    found = list(template_findings(current, placeholders, NEWEST, has_pods=True))
    assert [(each.severity.value, each.path) for each in found] == [each[:2] for each in want]
    for finding, (_, _, text) in zip(found, want, strict=True):
        assert text in finding.message


def test_a_process_pool_has_no_pods() -> None:
    current = changed(shm_size={"default": "8 tons"})
    assert list(template_findings(current, (), NEWEST, has_pods=False)) == []


@pytest.mark.parametrize(
    ("manifest", "want"),
    [
        pytest.param(template(), [], id="the default"),
        pytest.param(template(hostNetwork=True), ["security-host-namespace"], id="host network"),
        pytest.param(
            template(nodeSelector={"nvidia.com/gpu.product": "NVIDIA-L4"}),
            ["karpenter-late-label"],
            id="a label that no new node has",
        ),
        pytest.param({"kind": "Pod"}, ["invalid-input"], id="no Job"),
    ],
)
def test_the_job_of_a_run(manifest: dict[str, Any], want: list[str]) -> None:
    found = job_findings(manifest, make_kubernetes_policy(provisioner="karpenter"))
    assert [finding.code for finding in found] == want


def test_what_the_worker_sets_is_no_mistake_of_the_template() -> None:
    manifest = template(restartPolicy="OnFailure")
    manifest["spec"]["backoffLimit"] = 6
    assert list(job_findings(manifest, make_kubernetes_policy())) == []
