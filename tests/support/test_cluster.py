"""What is asked of the API in place of kubectl, and what kubectl alone knows."""

import pytest

from tests.support.cluster import _api_path


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param(["nodes"], "/api/v1/nodes", id="all nodes"),
        pytest.param(["--namespace=a", "node", "n1"], "/api/v1/nodes/n1", id="one node"),
        pytest.param(["--namespace=a", "pods"], "/api/v1/namespaces/a/pods", id="a namespace"),
        pytest.param(
            ["--namespace=a", "jobs", "--selector=x/y=z,!w"],
            "/apis/batch/v1/namespaces/a/jobs?labelSelector=x%2Fy%3Dz%2C%21w",
            id="a selector",
        ),
        pytest.param(["pods,jobs"], None, id="two kinds"),
        pytest.param(["rayjobs.ray.io"], None, id="a kind of an operator"),
        pytest.param(["pods", "--all-namespaces"], None, id="another option"),
        pytest.param(["pods", "-l", "a=b"], None, id="a short option"),
        pytest.param(["pods", "a", "b"], None, id="two names"),
    ],
)
def test_where_the_api_has_what_kubectl_is_asked_for(arguments, want):
    assert _api_path(arguments) == want
