"""The Helm chart: values that cannot be meant are refused, with the field's name."""

import re
from pathlib import Path

import pytest
import yaml

from tests.support.helm import (
    CHART,
    NAMESPACE,
    POLICY,
    REQUIRED,
    HelmFailed,
    helm,
    of_kind,
    render,
)

GUIDE = Path(__file__).parents[2] / "docs" / "kubernetes.md"


def without(*path):
    """The required values but for one."""
    values = {key: dict(value) for key, value in REQUIRED.items()}
    section, field = path
    del values[section][field]
    return values


def required(section, **fields):
    """The required values with these fields in one section."""
    return {section: REQUIRED[section] | fields}


SECRET_WITHOUT_KEY = {"existingSecret": "prefect-api"}
SCHEMA = [
    pytest.param({"replica": 3}, "additional properties 'replica' not allowed", id="a typo"),
    pytest.param(
        {"runs": {"namespaces": [{"name": "ml", "crate": True}]}},
        "at '/runs/namespaces/0': additional properties 'crate' not allowed",
        id="a typo far down",
    ),
    pytest.param({"replicas": "two"}, "at '/replicas': got string, want integer", id="a word"),
    pytest.param({"replicas": -1}, "at '/replicas': minimum: got -1, want 0", id="too few"),
    pytest.param({"runs": {"namespaces": []}}, "at '/runs/namespaces': minItems", id="no place"),
    pytest.param(
        {"runs": {"namespaces": [{"name": "ML"}]}},
        "at '/runs/namespaces/0/name': 'ML' does not match pattern",
        id="no name of a namespace",
    ),
    pytest.param(without("image", "repository"), "missing property 'repository'", id="no image"),
    pytest.param(without("prefect", "apiUrl"), "missing property 'apiUrl'", id="no server"),
    pytest.param(
        without("ledger", "existingSecret"), "missing property 'existingSecret'", id="no Secret"
    ),
    pytest.param(
        required("prefect", apiUrl="prefect:4200"), "at '/prefect/apiUrl'", id="no address"
    ),
    pytest.param(
        required("prefect", apiUrl="http://user:word@prefect:4200/api"),
        "at '/prefect/apiUrl'",
        id="a password in the address",
    ),
    pytest.param(
        required("prefect", apiKey="pnu_123"), "at '/prefect/apiKey': got string", id="a plain key"
    ),
    pytest.param(
        required("prefect", apiKey=SECRET_WITHOUT_KEY), "at '/prefect/apiKey'", id="no key's name"
    ),
    pytest.param(
        required("prefect", apiKey={"key": "key"}), "at '/prefect/apiKey'", id="no Secret's name"
    ),
    pytest.param(
        required("ledger", url="postgresql://gpu:word@db/gpu"),
        "at '/ledger': additional properties 'url' not allowed",
        id="a plain password",
    ),
    pytest.param(required("image", digest="abc"), "at '/image/digest'", id="no digest"),
    pytest.param(
        required("image", tag="1", digest=f"sha256:{'0' * 64}"), "at '/image'", id="tag and digest"
    ),
    pytest.param({"frameworks": {"dask": True}}, "'dask' not allowed", id="unknown framework"),
    pytest.param({"probes": {"port": 0}}, "at '/probes/port': minimum", id="no port"),
    pytest.param({"policy": ["version: 1"]}, "at '/policy': got array", id="no policy"),
    pytest.param(
        {"networkPolicy": {"prefect": {"cidrs": ["prefect.example.com"]}}},
        "at '/networkPolicy/prefect/cidrs/0'",
        id="a name where addresses are meant",
    ),
    pytest.param(
        {"extraEnv": [{"name": "A", "vlaue": "b"}]}, "'vlaue' not allowed", id="a variable's typo"
    ),
]  # fmt: skip
WITH_KEY = required("prefect", apiKey={"existingSecret": "prefect-api", "key": "key"})
CONTRADICTIONS = [
    pytest.param(
        WITH_KEY,
        "runs.apiKey.existingSecret is required with prefect.apiKey",
        id="a key that Jobs would hold in plain text",
    ),
    pytest.param(
        {"runs": {"namespaces": [{"name": NAMESPACE}]}},
        f"runs.namespaces names {NAMESPACE}, the namespace of the release",
        id="runs next to the worker",
    ),
    pytest.param(
        {"runs": {"namespaces": [{"name": "ml"}, {"name": "ml"}]}},
        "runs.namespaces names ml twice",
        id="a namespace twice",
    ),
    pytest.param(
        {"policy": {"version": 1, "kubernetes": {"prepull": ["a:1"]}}},
        "nodeAnnotations.enabled=true is required",
        id="a policy that needs a right",
    ),
    pytest.param({"policy": "version: [1"}, "policy is not YAML", id="a policy that is no YAML"),
]


@pytest.mark.parametrize(("values", "want"), SCHEMA + CONTRADICTIONS)
def test_helm_refuses(values, want):
    with pytest.raises(HelmFailed) as error:
        helm(
            "template", "gpu", str(CHART), f"--namespace={NAMESPACE}", values=REQUIRED | values
        )  # fmt: skip
    assert want in str(error.value)


@pytest.mark.parametrize(("values", "want"), SCHEMA[:2])
def test_helm_lint_refuses(values, want):
    with pytest.raises(HelmFailed) as error:
        helm("lint", str(CHART), values=REQUIRED | values)
    assert want in str(error.value)


@pytest.mark.parametrize("version", ["1.19.16", "1.20.2", "1.28.0", "1.30.4-gke.1", "1.34.1"])
def test_a_cluster_that_is_too_old_is_refused(version):
    if not version.startswith("1.19"):
        assert render({}, f"--kube-version={version}")
        return
    with pytest.raises(HelmFailed, match="requires kubeVersion"):
        render({}, f"--kube-version={version}")


def test_the_values_of_the_guide_are_enough():
    blocks = re.findall(r"^```yaml\n(.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    least, with_key = (yaml.safe_load(block) for block in blocks if "prefect:" in block)
    assert least.keys() == REQUIRED.keys()
    for values in (least, least | with_key):
        assert of_kind(render(values, f"--set-file=policy={POLICY}"), "Deployment")
