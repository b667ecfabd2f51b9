"""The pods of a queue whose PriorityClass is missing get another one's, and it is said once."""

import logging

import anyio
import pytest

from gpu_core.adapters.kubernetes import KubernetesError
from gpu_core.decisions.kubernetes.manifests.priority_class import class_name, queue_with_class
from gpu_core.decisions.policy.policy import parse_policy
from gpu_core.worker.kubernetes.cluster import priority_classes
from gpu_core.worker.kubernetes.cluster.priority_classes import PriorityClasses
from gpu_core.worker.kubernetes.cluster.rbac_warnings import MissingRights

POINTS = {"critical": 1_000_000, "rush": 20_000, "high": 10_000, "low": 100, "idle": 1}
FOUR = ("critical", "high", "medium", "low")
NO_RIGHT = KubernetesError(
    403,
    "Forbidden",
    'priorityclasses.scheduling.k8s.io is forbidden: User "w" cannot list resource '
    '"priorityclasses" in API group "scheduling.k8s.io" at the cluster scope',
)


@pytest.mark.parametrize(
    ("queue", "installed", "want"),
    [
        pytest.param("rush", ("rush", "high"), "rush", id="its own"),
        pytest.param("rush", FOUR, "high", id="the next one below"),
        pytest.param("idle", FOUR, None, id="none is below"),
        pytest.param("rush", (), None, id="none is installed"),
        pytest.param("low", ("idle", "critical"), "idle", id="one of few points"),
        pytest.param(None, FOUR, None, id="no queue is known"),
    ],
)
def test_a_missing_class_is_replaced_by_the_next_one_below(queue, installed, want):
    assert queue_with_class(queue, POINTS, {class_name(each) for each in installed}) == want


def test_of_queues_with_the_same_points_its_own_class_comes_first():
    points = {"a": 5, "b": 5}
    both = {class_name("a"), class_name("b")}
    assert [queue_with_class(queue, points, both) for queue in ("a", "b")] == ["a", "b"]
    assert queue_with_class("b", points, {class_name("a")}) == "a"


class Api:
    """Answers one thing after the other."""

    def __init__(self, *answers):
        self.answers = list(answers)

    async def get(self, path):
        assert path == "/apis/scheduling.k8s.io/v1/priorityclasses"
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return {"items": [{"metadata": {"name": class_name(queue)}} for queue in answer]}


def policy(**kubernetes):
    values = {"priority_classes": True, **kubernetes}
    return parse_policy(
        {"version": 1, "priorities": POINTS, "default_priority": "low", "kubernetes": values}
    )


def classes_of(api, *policies):
    """What the pods of `rush` get after each look."""

    async def look():
        classes = PriorityClasses(api, MissingRights())
        found = []
        for each in policies:
            await classes.refresh(each)
            found.append(classes.queue_for("rush", each))
        return found

    return anyio.run(look)


@pytest.fixture
def warnings(monkeypatch, caplog):
    """What the worker says, when every call reads."""
    monkeypatch.setattr(priority_classes, "_POLL_S", 0.0)
    monkeypatch.setattr(logging.getLogger("prefect"), "propagate", True)
    caplog.set_level(logging.WARNING)
    return lambda: [record.message for record in caplog.records]


def test_the_cluster_is_asked_and_what_is_missing_said_once(warnings):
    api = Api(FOUR, FOUR, ("rush", *FOUR), FOUR)
    assert classes_of(api, *4 * [policy()]) == ["high", "high", "rush", "high"]
    missing = [line for line in warnings() if "'rush'" in line]
    assert missing == 2 * [
        "PriorityClass prefect-gpu-rush for queue 'rush' was not found, using "
        "prefect-gpu-high for its pods. Install the class or set "
        "`kubernetes.priority_classes` to false."
    ]


def test_it_says_where_pods_get_none(warnings):
    classes_of(Api(FOUR), policy())
    (line,) = [line for line in warnings() if "'idle'" in line]
    assert "using no class for its pods." in line


def test_without_the_right_the_classes_of_every_installation_are_taken_to_be_there(warnings):
    assert classes_of(Api(NO_RIGHT, NO_RIGHT), policy(), policy()) == ["high", "high"]
    first, *others = warnings()
    assert first.startswith(
        "The worker is not permitted to list priorityclasses.scheduling.k8s.io in all "
        "namespaces: PriorityClasses are assumed to exist only for critical, high, medium, "
        "low"
    )
    assert not any(line == first for line in others)


def test_a_server_that_is_away_changes_nothing(warnings):
    api = Api(("rush", *FOUR), KubernetesError(503, "", "away"))
    assert classes_of(api, policy(), policy()) == ["rush", "rush"]
    assert not any("'rush'" in line for line in warnings())


def test_nothing_is_asked_where_the_policy_has_no_classes():
    classes_of(Api(), policy(priority_classes=False))


def test_they_are_read_once_a_minute():
    assert classes_of(Api(("rush",)), policy(), policy()) == ["rush", "rush"]
