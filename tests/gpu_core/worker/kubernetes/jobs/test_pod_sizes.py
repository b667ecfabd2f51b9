"""What is remembered of the pods of runs that wait, cycle after cycle."""

import copy
from types import SimpleNamespace

from gpu_core.testing.builders.workloads import make_policy, make_workload
from gpu_core.worker.kubernetes.jobs import pod_sizes
from tests.gpu_core.worker.kubernetes.of_cluster import of_cluster


def test_a_run_is_parsed_again_only_with_other_variables_or_another_template(monkeypatch):
    template = {"variables": {"properties": {"image": {"default": "a"}}}}
    now = [template]
    parsed = []
    parse = pod_sizes.parse_pod_request

    def counted(variables, defaults):
        parsed.append((variables.get("image"), defaults))
        return parse(variables, defaults)

    monkeypatch.setattr(pod_sizes, "parse_pod_request", counted)
    infrastructure = of_cluster(SimpleNamespace(), template=lambda: now[0])

    def fit(variables):
        infrastructure.fitted(
            make_workload(), variables, make_policy(), "train", has_deployment=True
        )
        return len(parsed)

    variables = {"image": "b"}
    assert [fit(variables) for _ in range(3)] == [1, 1, 1]
    now[0] = copy.deepcopy(template)
    assert fit(variables) == 1, "the same template, read again"
    other = {"image": "c"}
    assert [fit(other), fit(other)] == [2, 2]
    now[0] = {"variables": {"properties": {"image": {"default": "d"}}}}
    assert [fit(other), fit(other)] == [3, 3]
    assert parsed == [("b", {"image": "a"}), ("c", {"image": "a"}), ("c", {"image": "d"})]


def test_a_run_that_waits_no_longer_is_forgotten():
    """A worker starts thousands of runs a day: what it keeps of each would fill its memory."""
    infrastructure = of_cluster(SimpleNamespace())
    ids = [f"run-{number}" for number in range(100)]
    for number, workload_id in enumerate(ids):
        infrastructure.fitted(
            *(make_workload(workload_id=workload_id), {}, make_policy(), "train"),
            has_deployment=True,
        )
        infrastructure.keep_fitted({workload_id, *ids[number + 1 :]})
        assert infrastructure._sizes._known.keys() == {workload_id}
    infrastructure.keep_fitted(set())
    assert not infrastructure._sizes._known
