"""What a file is follows from what it holds; its name decides only where that says nothing."""

import pytest

from gpu_core.decisions.checks.files.file_kinds import FileKind, kind_of, misspelled_section


@pytest.mark.parametrize(
    ("data", "name", "want"),
    [
        pytest.param({"version": 1, "prices": {}}, "x.yaml", FileKind.POLICY, id="a policy"),
        pytest.param({"version": 1}, "policy.yaml", FileKind.POLICY, id="a policy by its name"),
        pytest.param({"prices": {}, "quotas": {}}, "x.yaml", FileKind.POLICY, id="no version"),
        pytest.param({"prices": {}, "quotas": {}, "services": {}}, "x.yaml", None, id="of another"),
        pytest.param({"verison": 1}, "policy.yaml", FileKind.POLICY, id="a misspelled version"),
        pytest.param({"version": 1}, "x.yaml", None, id="a version says nothing"),
        pytest.param({"version": 3, "services": {}}, "compose.yaml", None, id="a compose file"),
        pytest.param({"deployments": []}, "x.yaml", FileKind.PROJECT, id="deployments"),
        pytest.param({"deploymnets": []}, "prefect.yaml", FileKind.PROJECT, id="by its name"),
        pytest.param(
            {"variables": {}, "job_configuration": {}}, "x", FileKind.JOB_TEMPLATE, id="a template"
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "Pod"}, "policy.yaml", FileKind.MANIFEST, id="a manifest"
        ),
        pytest.param({"kind": "Pod", "spec": {}}, "x", FileKind.MANIFEST, id="without apiVersion"),
        pytest.param({"kind": "x"}, "x", None, id="a kind alone"),
        pytest.param([1], "policy.yaml", None, id="a list"),
        pytest.param(None, "policy.yaml", None, id="nothing"),
        pytest.param({1: 2}, "x", None, id="keys that are no text"),
    ],
)
def test_kind(data: object, name: str, want: FileKind | None) -> None:
    assert kind_of(data, name) is want


@pytest.mark.parametrize(
    ("data", "want"),
    [
        pytest.param({"version": 1, "preemtion": {}}, "preemption", id="a section"),
        pytest.param({"verison": 1}, "version", id="the version"),
        pytest.param({"version": 2}, None, id="none is misspelled"),
        pytest.param({5: 1, "services": {}}, None, id="keys of another file"),
    ],
)
def test_the_section_of_a_policy_that_a_key_was_meant_for(data: dict, want: str | None) -> None:
    assert misspelled_section(data) == want
