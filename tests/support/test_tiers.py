"""Which tests are quick, and what is said of those that are left out."""

import pytest

from tests.support.tiers import Tier, left_out_lines, tier_of


@pytest.mark.parametrize(
    ("path", "needs", "want"),
    [
        pytest.param("gpu_core/test_a.py", ["tmp_path"], Tier.QUICK, id="nothing but this process"),
        pytest.param("blocks/test_a.py", ["prefect_server"], Tier.INTEGRATION, id="a server"),
        pytest.param("gpu_core/test_a.py", ["postgresql"], Tier.INTEGRATION, id="a marker"),
        pytest.param("layout/test_a.py", ["clean_export"], Tier.INTEGRATION, id="a clean clone"),
        pytest.param("end_to_end/test_a.py", [], Tier.INTEGRATION, id="a story"),
        pytest.param("cluster/test_a.py", [], Tier.CLUSTER, id="a folder of a cluster"),
        pytest.param("cluster/test_a.py", ["browser"], Tier.CLUSTER, id="the dearer of two"),
        pytest.param("infra/test_a.py", ["cluster"], Tier.CLUSTER, id="the dearer by its need"),
        pytest.param("gpu_core/test_a.py", ["gpu"], Tier.GPU, id="a real GPU"),
        pytest.param("local_cluster/test_a.py", [], Tier.QUICK, id="a folder of a similar name"),
    ],
)
def test_the_tier_of_a_test(path, needs, want):
    assert tier_of(path, needs) == want


def test_each_tier_that_is_left_out_is_named_with_its_command():
    lines = left_out_lines([Tier.CLUSTER, *[Tier.INTEGRATION] * 1_200])
    assert lines == [
        "1,200 tests with Prefect, PostgreSQL, Chromium, helm or a clean clone, and stories:"
        " make test-integration",
        "1 test with a Kubernetes: make test-cluster",
    ]


def test_nothing_is_said_where_nothing_is_left_out():
    assert left_out_lines([]) == []
