"""What a run's job variables bring into its Job is permitted by name, or the run is held."""

import pytest

from gpu_core.decisions.kubernetes.manifests.references import Reference
from gpu_core.decisions.kubernetes.rbac.permitted_references import (
    JobReferences,
    WorkersOwn,
    beyond_permission,
    held_if_not_permitted,
    unlisted,
)
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.reasons import Reason
from gpu_core.decisions.model.workload import Hold, Workload
from gpu_core.decisions.policy.permissions import Referred
from gpu_core.decisions.policy.policy import Policy, parse_policy
from gpu_core.testing.builders.attempts import NOON

OWN = WorkersOwn(
    namespace="prefect-gpu", service_account="gpu-worker", secrets=frozenset({"gpu-worker", "s3"})
)
LISTS = {
    "service_accounts": ["trainer"],
    "secrets": ["vision-keys", "s3"],
    "config_maps": [],
    "claims": ["datasets"],
    "namespaces": ["ml"],
    "host_paths": ["/data"],
    "pod_fields": ["runtimeClassName"],
}


def policy_with(default=None, **teams) -> Policy:
    permissions = {"default": default or {}, "teams": teams}
    return parse_policy({"version": 1, "permissions": permissions})


def brings(*references, namespace="prefect-gpu", by_template=()):
    return JobReferences(
        namespace=namespace, by_run=frozenset(references), by_template=frozenset(by_template)
    )


def account(name):
    return Reference(Referred.SERVICE_ACCOUNT, name)


def secret(name):
    return Reference(Referred.SECRET, name)


def path(name):
    return Reference(Referred.HOST_PATH, name)


@pytest.mark.parametrize(
    ("lists", "found", "want"),
    [
        pytest.param(LISTS, brings(), (), id="nothing of its own"),
        pytest.param(LISTS, brings(account("trainer"), secret("s3")), (), id="what is listed"),
        pytest.param(
            LISTS,
            brings(account("trainr")),
            ("use ServiceAccount 'trainr' (did you mean 'trainer'? Allowed: trainer)",),
            id="a misspelled account",
        ),
        pytest.param(
            LISTS,
            brings(secret("db"), by_template=[secret("pull")]),
            ("use Secret 'db' (allowed: pull, s3, vision-keys)",),
            id="another Secret; the template's own is allowed",
        ),
        pytest.param(
            LISTS,
            brings(Reference(Referred.CONFIG_MAP, "c")),
            ("use ConfigMap 'c' (allowed: none)",),
            id="nothing is listed",
        ),
        pytest.param(
            LISTS,
            brings(Reference(Referred.NAMESPACE, "kube-system"), namespace="kube-system"),
            ("run in namespace 'kube-system' (allowed: ml)",),
            id="another namespace",
        ),
        pytest.param(LISTS, brings(path("/data"), path("/data/a/")), (), id="a folder below"),
        pytest.param(
            LISTS,
            brings(path("/data/../etc")),
            ("mount host path '/data/../etc' (allowed: /data)",),
            id="a way out of it",
        ),
        pytest.param(
            LISTS,
            brings(path("/database")),
            ("mount host path '/database' (did you mean '/data'? Allowed: /data)",),
            id="a folder that begins alike",
        ),
        pytest.param(
            {"host_paths": ["/"]}, brings(path("/"), path("/etc")), (), id="all of the node"
        ),
        pytest.param(
            LISTS,
            brings(Reference(Referred.POD_FIELD, "hostNetwork", "True")),
            ("set hostNetwork (allowed: runtimeClassName)",),
            id="a field of the pod",
        ),
        pytest.param({}, brings(secret("db"), account("a")), (), id="a policy without the lists"),
        pytest.param({"secrets": None}, brings(secret("db")), (), id="anything, and said so"),
        pytest.param(
            {},
            brings(account("gpu-worker")),
            ("use ServiceAccount 'gpu-worker', which is reserved for the worker",),
            id="the worker's account, in a policy without the lists",
        ),
        pytest.param(
            {"service_accounts": ["gpu-worker"]},
            brings(account("gpu-worker")),
            ("use ServiceAccount 'gpu-worker', which is reserved for the worker",),
            id="the worker's account, although it is listed",
        ),
        pytest.param(
            {"service_accounts": None, "secrets": None},
            brings(account("gpu-worker"), secret("gpu-worker")),
            (
                "use Secret 'gpu-worker', which is reserved for the worker",
                "use ServiceAccount 'gpu-worker', which is reserved for the worker",
            ),
            id="the worker's own, although anything is allowed",
        ),
        pytest.param(LISTS, brings(secret("s3")), (), id="a Secret of both, as it is listed"),
        pytest.param(
            {},
            brings(account("gpu-worker"), namespace="ml"),
            (),
            id="an account of that name in another namespace",
        ),
    ],
)
def test_what_a_run_may_bring(lists, found, want):
    permission = policy_with(lists).permissions.of(None)
    assert beyond_permission(found, permission, OWN) == want


def test_a_worker_outside_of_the_cluster_has_nothing_there():
    permission = Policy(version=1).permissions.of(None)
    assert beyond_permission(brings(account("gpu-worker")), permission, None) == ()


@pytest.mark.parametrize(
    ("lists", "want"),
    [
        pytest.param({}, ["db"], id="the policy says nothing"),
        pytest.param({"secrets": None}, [], id="anything, and said so"),
        pytest.param({"secrets": ["db"]}, [], id="listed"),
        pytest.param({"claims": []}, ["db"], id="another list"),
    ],
)
def test_what_the_next_release_refuses(lists, want):
    permission = policy_with(lists).permissions.of(None)
    assert [each.name for each in unlisted(brings(secret("db")), permission)] == want


def test_a_team_has_lists_of_its_own():
    policy = policy_with({"secrets": [], "claims": ["shared"]}, vision={"secrets": ["vision"]})
    found = brings(secret("vision"), Reference(Referred.CLAIM, "shared"))
    assert beyond_permission(found, policy.permissions.of("vision"), OWN) == ()
    assert beyond_permission(found, policy.permissions.of("audio"), OWN) == (
        "use Secret 'vision' (allowed: none)",
    )
    assert unlisted(found, policy.permissions.of("vision")) == ()


def workload(hold=None, team="vision"):
    return Workload(workload_id="w", name="w", priority=1, submitted_at=NOON, team=team, hold=hold)


def test_it_is_held_with_what_would_help():
    policy = policy_with(vision={"secrets": ["vision"]})
    held = held_if_not_permitted(workload(), brings(secret("vison"), account("x")), policy, OWN)
    assert held.hold == Hold(
        reason=Reason.NOT_PERMITTED,
        summary="Held: a run of team 'vision' is not permitted to use Secret 'vison' (did you "
        "mean 'vision'? Allowed: vision).",
        resolution="Please submit the run again within these limits or change "
        "permissions.teams.vision in the policy.",
    )


@pytest.mark.parametrize(
    ("reason", "want"),
    [
        pytest.param(Reason.HELD, Reason.NOT_PERMITTED, id="a person's"),
        pytest.param(Reason.AMBIGUOUS_COMMAND, Reason.NOT_PERMITTED, id="of its command"),
        pytest.param(Reason.UNKNOWN_QUEUE, Reason.UNKNOWN_QUEUE, id="of its queue"),
    ],
)
def test_the_graver_hold_wins(reason, want):
    before = workload(Hold(reason=reason, summary="s", resolution="r"))
    policy = policy_with({"secrets": []})
    held = held_if_not_permitted(before, brings(secret("db")), policy, OWN)
    assert held.hold is not None
    assert held.hold.reason == want
    assert held_if_not_permitted(before, brings(), policy, OWN) is before


@pytest.mark.parametrize(
    ("lists", "want_error"),
    [
        pytest.param(
            {"pod_fields": ["hostNetwrok"]},
            r"permissions.default.pod_fields contains a field .*Did you mean 'hostNetwork'",
            id="a misspelled field",
        ),
        pytest.param({"secrets": "keys"}, "permissions.default.secrets", id="text, no list"),
        pytest.param({"secrets": ["Keys"]}, "name of a Kubernetes object", id="a capital letter"),
        pytest.param({"secrets": ["team-*"]}, "name of a Kubernetes object", id="a pattern"),
        pytest.param({"host_paths": ["data"]}, "is not a path", id="a relative path"),
        pytest.param({"host_paths": ["/data/../etc"]}, "is not a path", id="a way out"),
        pytest.param({"host_paths": ["/data/"]}, "is not a path", id="a slash at the end"),
        pytest.param({"host_paths": ["//data"]}, "is not a path", id="two slashes at the front"),
        pytest.param({"service_acounts": []}, "service_accounts", id="a misspelled key"),
    ],
)
def test_lists_that_cannot_be_used_are_refused(lists, want_error):
    with pytest.raises(InvalidInput, match=want_error):
        policy_with(lists)
