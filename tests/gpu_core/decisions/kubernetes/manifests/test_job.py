"""From an attempt to the Jobs that run it."""

import json
import re
from copy import deepcopy
from pathlib import Path

import pytest

from gpu_core.decisions.kubernetes.manifests.job import build_job, owned_by
from gpu_core.decisions.kubernetes.manifests.launch import Wanted
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.testing.builders.manifests import (
    ATTEMPT_ID,
    JOB_NAME,
    TEMPLATE,
    build,
    container_of,
    env_of,
    make_kubernetes_policy,
    make_launch,
    on_nodes,
    pod_of,
    template,
    template_container,
)
from tests.support.kubernetes_schemas import schema_errors

GOLDEN = Path(__file__).parent / "golden"

GOLDEN_CASES = [
    pytest.param("planned_node", make_launch(2, max_duration_s=3600), {}, id="a planned node"),
    pytest.param(
        "karpenter_spot",
        make_launch(
            8, place=Wanted(gpu_types=("a100-80gb", "h100-80gb"), capacity_types=("spot",))
        ),
        {"provisioner": "karpenter", "priority_classes": True},
        id="spot nodes that Karpenter is to launch",
    ),
    pytest.param(
        "gang",
        make_launch(8, nodes=2, variables={"container_command": "torchrun train.py"}),
        {},
        id="a gang on two planned nodes",
    ),
    pytest.param(
        "container_job",
        make_launch(
            1,
            is_flow=False,
            shape={"mig_profile": "1g.10gb"},
            variables={
                "image": "ghcr.io/team/train:1",
                "container_command": ["python", "train.py"],
                "volumes": [{"claim": "datasets", "mount_path": "/data", "read_only": True}],
            },
        ),
        {"model_cache": {"claim": "models"}, "secrets": {"HF_TOKEN": {"name": "hf", "key": "t"}}},
        id="a container job on a MIG instance",
    ),
    pytest.param(
        "kueue", make_launch(1), {"kueue_queue": "gpus"}, id="a Job that Kueue admits"
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "launch", "policy"), GOLDEN_CASES)
def test_golden_manifest(name, launch, policy):
    """To take over a change that is meant: write `found` to the file, and read the difference."""
    manifests = build(launch, **policy)
    found = [*manifests.jobs, *([manifests.service] if manifests.service else [])]
    assert found == json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    assert [schema_errors(manifest) for manifest in found] == [[]] * len(found)


def test_the_kubelet_does_not_start_the_run_again():
    """Kubernetes 1.34 lets a container have a restart policy of its own."""
    rules = [{"action": "Restart", "exitCodes": {"operator": "NotIn", "values": [0]}}]
    pool = template_container(restartPolicy="OnFailure", restartPolicyRules=rules)
    (job,) = build(None, pool).jobs
    assert not {"restartPolicy", "restartPolicyRules"} & container_of(job).keys()


def test_the_template_is_not_changed():
    before = deepcopy(TEMPLATE)
    build_job(TEMPLATE, make_launch(), make_kubernetes_policy())
    assert before == TEMPLATE


def test_the_same_attempt_has_the_same_job():
    """So creating it twice is refused by Kubernetes, and nothing runs twice."""
    assert build() == build()
    metadata = build().jobs[0]["metadata"]
    assert metadata["name"] == JOB_NAME
    assert "generateName" not in metadata
    assert metadata["labels"]["prefect-gpu.dev/attempt-id"] == ATTEMPT_ID


def test_a_label_that_had_to_change_keeps_its_value_in_an_annotation():
    launch = make_launch(context={"team": "vision & speech", "project": None}, user="")
    for metadata in (
        build(launch).jobs[0]["metadata"],
        build(launch).jobs[0]["spec"]["template"]["metadata"],
    ):
        assert metadata["labels"]["prefect-gpu.dev/team"] == "vision-speech-46cdadda"
        assert metadata["annotations"]["prefect-gpu.dev/team"] == "vision & speech"
        assert "prefect-gpu.dev/pool" not in metadata["annotations"]
        unknown = {"prefect-gpu.dev/project", "prefect-gpu.dev/user"}
        assert not unknown & metadata["labels"].keys()


def test_what_the_platform_team_added_is_kept():
    added = template(
        nodeSelector={"team": "vision"},
        serviceAccountName="trainer",
        tolerations=[{"key": "dedicated", "operator": "Exists"}],
        initContainers=[{"name": "fetch", "image": "fetch:1"}],
        volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        securityContext={"runAsUser": 2000, "runAsNonRoot": True},
        terminationGracePeriodSeconds=300,
        priorityClassName="theirs",
    )
    added["spec"]["ttlSecondsAfterFinished"] = 60
    added["metadata"]["annotations"]["owner"] = "ml-platform"
    job = build(manifest=added, priority_classes=True).jobs[0]
    pod = pod_of(job)
    assert pod["nodeSelector"] == {"team": "vision"}
    assert pod["serviceAccountName"] == "trainer"
    assert "automountServiceAccountToken" not in pod
    assert [t["key"] for t in pod["tolerations"]] == ["dedicated", "nvidia.com/gpu", "sku"]
    assert pod["volumes"][0]["name"] == "data"
    assert pod["securityContext"]["runAsUser"] == 2000
    assert (pod["terminationGracePeriodSeconds"], pod["priorityClassName"]) == (300, "theirs")
    assert job["spec"]["ttlSecondsAfterFinished"] == 60
    assert job["metadata"]["annotations"]["owner"] == "ml-platform"
    assert pod["initContainers"][0]["securityContext"]["allowPrivilegeEscalation"] is False


@pytest.mark.parametrize(
    ("manifest", "check"),
    [
        pytest.param(
            template(terminationGracePeriodSeconds=5),
            lambda job: pod_of(job)["terminationGracePeriodSeconds"] == 35,
            id="a grace in which Prefect cannot end a flow",
        ),
        pytest.param(
            template(restartPolicy="OnFailure"),
            lambda job: pod_of(job)["restartPolicy"] == "Never",
            id="a container that the kubelet would start again",
        ),
        pytest.param(
            template_container(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]),
            lambda job: "NVIDIA_VISIBLE_DEVICES" not in env_of(job),
            id="a view of the neighbors' GPUs",
        ),
        pytest.param(
            template_container(
                env=[{"name": "PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR", "value": "relinquish"}]
            ),
            lambda job: (
                env_of(job)["PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR"] == "reschedule"
            ),
            id="another owner of retries",
        ),
        pytest.param(
            template_container(resources={"limits": {"nvidia.com/gpu": 4, "cpu": "1"}}),
            lambda job: (
                container_of(job)["resources"]["limits"].keys() == {"memory", "nvidia.com/gpu"}
                and container_of(job)["resources"]["limits"]["nvidia.com/gpu"] == "1"
            ),
            id="other GPUs than were placed, and a CPU limit under the request",
        ),
    ],
)  # fmt: skip
def test_where_the_run_would_not_work_ours_counts(manifest, check):
    assert check(build(manifest=manifest).jobs[0])


def test_kubernetes_retries_nothing():
    """There is one owner of retries, the worker."""
    manifest = template()
    manifest["spec"].update(
        backoffLimit=6,
        backoffLimitPerIndex=1,
        podReplacementPolicy="TerminatingOrFailed",
        podFailurePolicy={
            "rules": [
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
                {"action": "FailJob", "onPodConditions": [{"type": "ConfigIssue"}]},
            ]
        },
    )
    spec = build(manifest=manifest).jobs[0]["spec"]
    assert spec["backoffLimit"] == 0
    assert not spec.keys() & {"backoffLimitPerIndex", "podReplacementPolicy"}
    assert spec["podFailurePolicy"]["rules"] == [
        {"action": "FailJob", "onPodConditions": [{"status": "True", "type": "DisruptionTarget"}]},
        {"action": "FailJob", "onPodConditions": [{"status": "True", "type": "ConfigIssue"}]},
    ]
    assert "podFailurePolicy" not in build(manifest=manifest, version="1.20").jobs[0]["spec"]


def test_the_notice_reaches_the_run():
    """An annotation of the pod appears in the file that the run is informed of."""
    job = build().jobs[0]
    assert env_of(job)["PREFECT_GPU_NOTICE_FILE"] == "/var/run/prefect-gpu/notice/notice.json"
    mounts = {mount["mountPath"]: mount["name"] for mount in container_of(job)["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod_of(job)["volumes"]}
    item = volumes[mounts["/var/run/prefect-gpu/notice"]]["downwardAPI"]["items"][0]
    assert item["path"] == "notice.json"
    assert item["fieldRef"]["fieldPath"] == "metadata.annotations['prefect-gpu.dev/notice']"
    run_dir = volumes[mounts[env_of(job)["PREFECT_GPU_RUN_DIR"]]]
    assert run_dir["emptyDir"] == {}


def test_a_run_without_gpus_sees_none():
    launch = make_launch(0, place=Wanted())
    job = build(launch).jobs[0]
    assert env_of(job)["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert not any("nvidia" in name for name in container_of(job)["resources"]["limits"])
    assert "tolerations" not in pod_of(job) or not any(
        t["key"] == "nvidia.com/gpu" for t in pod_of(job)["tolerations"]
    )


def test_the_longest_duration_counts_from_the_start_of_the_pod():
    """Not from the Job's, which waits for a node; the worker ends it before, with notice."""
    job = build(make_launch(max_duration_s=3600)).jobs[0]
    assert pod_of(job)["activeDeadlineSeconds"] == 3900
    assert "activeDeadlineSeconds" not in job["spec"]
    assert "activeDeadlineSeconds" not in pod_of(build().jobs[0])


@pytest.mark.parametrize(
    ("provisioner", "capacity_type", "want_s"),
    [
        pytest.param("karpenter", "spot", 110, id="EC2 warns two minutes before"),
        pytest.param("gke", "spot", 35, id="Google warns for less than Prefect takes"),
        pytest.param("aks", "spot", 35, id="and so does Azure"),
        pytest.param("karpenter", "on-demand", 120, id="a node that stays"),
        pytest.param("fixed", "spot", 120, id="a cloud that is not named"),
    ],
)
def test_termination_grace(provisioner, capacity_type, want_s):
    launch = make_launch(place=on_nodes("n1", capacity_type=capacity_type))
    job = build(launch, provisioner=provisioner).jobs[0]
    assert pod_of(job)["terminationGracePeriodSeconds"] == want_s


@pytest.mark.parametrize(
    ("provisioner", "capacity_type", "want"),
    [
        pytest.param("karpenter", "on-demand", "karpenter.sh/do-not-disrupt", id="Karpenter"),
        pytest.param(
            "gke", "on-demand", "cluster-autoscaler.kubernetes.io/safe-to-evict", id="an autoscaler"
        ),
        pytest.param("fixed", "on-demand", None, id="nothing that evicts it"),
        pytest.param("karpenter", "spot", None, id="spot: it would get no notice of its end"),
    ],
)
def test_running_pods_are_not_moved_to_save_nodes(provisioner, capacity_type, want):
    launch = make_launch(place=on_nodes("n1", capacity_type=capacity_type))
    job = build(launch, provisioner=provisioner).jobs[0]
    found = job["spec"]["template"]["metadata"]["annotations"].keys() - {"prefect-gpu.dev/name"}
    assert found == ({want} if want else set())


def test_a_container_job_has_no_prefect_in_it():
    manifest = template_container(
        env=[{"name": "PREFECT_API_KEY", "value": "k"}, {"name": "MODE", "value": "fast"}]
    )
    launch = make_launch(
        is_flow=False, variables={"image": "train:1", "container_command": "./train --fast"}
    )
    job = build(launch, manifest).jobs[0]
    container = container_of(job)
    assert (container["image"], container["command"]) == ("train:1", ["./train", "--fast"])
    assert "args" not in container
    env = env_of(job)
    assert env["PREFECT__FLOW_RUN_ID"]
    assert env["PREFECT_GPU_ATTEMPT"] == "1"
    assert env["PREFECT_GPU_CHECKPOINT_URI"] == "s3://checkpoints"
    assert env["MODE"] == "fast"
    assert not {"PREFECT_API_KEY", "PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR"} & env.keys()


ROOT = {"securityContext": {"runAsUser": 0}}
SIDECAR = {"name": "log", "image": "log:1"}


@pytest.mark.parametrize(
    ("manifest", "want"),
    [
        pytest.param(
            template_container(**ROOT),
            [r"containers\[0\].securityContext.runAsUser must not be root.*'restricted'.*got 0"],
            id="the run's container",
        ),
        pytest.param(
            template(containers=[container_of(TEMPLATE), SIDECAR | ROOT]),
            [r"containers\[1\].securityContext.runAsUser"],
            id="another container",
        ),
        pytest.param(
            template(initContainers=[SIDECAR | ROOT]),
            [r"initContainers\[0\].securityContext.runAsUser"],
            id="an init container",
        ),
        pytest.param(
            template(securityContext={"runAsUser": 0}),
            [r"template.spec.securityContext.runAsUser"],
            id="the pod",
        ),
        pytest.param(
            template(securityContext={"runAsNonRoot": True}, initContainers=[SIDECAR | ROOT]),
            [r"initContainers\[0\]"],
            id="against the pod's own word",
        ),
        pytest.param(
            template(initContainers=[SIDECAR | ROOT, SIDECAR | ROOT | {"name": "two"}]),
            [r"initContainers\[0\]", r"initContainers\[1\]"],
            id="two at once",
        ),
    ],
)
def test_what_the_kubelet_would_never_start_is_refused(manifest, want):
    """Otherwise its run would wait for `pending_timeout`, and fail without a reason."""
    with pytest.raises(InvalidInput) as refusal:
        build(manifest=manifest)
    lines = str(refusal.value).splitlines()
    assert len(lines) == len(want)
    assert all(re.search(*pair) for pair in zip(want, lines, strict=True))


NOT_ROOT_AFTER_ALL = {"securityContext": {"runAsUser": 2000}}
MAY_BE_ROOT = {"securityContext": {"runAsUser": 0, "runAsNonRoot": False}}


@pytest.mark.parametrize(
    ("manifest", "policy"),
    [
        pytest.param(template_container(**ROOT), {"pod_security": "template"}, id="the policy"),
        pytest.param(template(**MAY_BE_ROOT), {}, id="the pod"),
        pytest.param(template(initContainers=[SIDECAR | MAY_BE_ROOT]), {}, id="a container"),
        pytest.param(
            template(
                securityContext={"runAsUser": 0},
                containers=[container_of(TEMPLATE) | NOT_ROOT_AFTER_ALL],
            ),
            {},
            id="the pod is, and none of its containers",
        ),
    ],
)
def test_root_is_left_alone_where_the_template_allows_it(manifest, policy):
    job = build(manifest=manifest, **policy).jobs[0]
    assert '"runAsUser": 0' in json.dumps(job)


@pytest.mark.parametrize(
    ("context", "version", "want"),
    [
        pytest.param({}, "1.34", "OnRootMismatch", id="ours"),
        pytest.param({}, "1.19", None, id="a cluster that drops it"),
        pytest.param({"fsGroupChangePolicy": "Always"}, "1.34", "Always", id="the template's"),
        pytest.param({"fsGroup": 7}, "1.34", None, id="the template's group, as it says"),
        pytest.param({"runAsNonRoot": False}, "1.34", None, id="no group"),
    ],
)
def test_volumes_are_not_gone_through_before_each_start(context, version, want):
    job = build(manifest=template(securityContext=context), version=version).jobs[0]
    assert pod_of(job)["securityContext"].get("fsGroupChangePolicy") == want


def test_what_the_worker_adds_gives_way_to_the_template():
    manifest = template_container(env=[{"name": "MLFLOW_TRACKING_URI", "value": "theirs"}])
    launch = make_launch(environment={"MLFLOW_TRACKING_URI": "ours", "MLFLOW_EXPERIMENT_NAME": "e"})
    env = env_of(build(launch, manifest).jobs[0])
    assert (env["MLFLOW_TRACKING_URI"], env["MLFLOW_EXPERIMENT_NAME"]) == ("theirs", "e")


def test_variables_may_still_be_a_mapping():
    manifest = template_container(env={"MODE": "fast", "NVIDIA_VISIBLE_DEVICES": "all", "NO": None})
    env = env_of(build(manifest=manifest).jobs[0])
    assert env["MODE"] == "fast"
    assert not {"NVIDIA_VISIBLE_DEVICES", "NO"} & env.keys()


def test_a_secret_replaces_a_literal_value():
    manifest = template_container(env=[{"name": "HF_TOKEN", "value": "hf_literal"}])
    secrets = {"HF_TOKEN": {"name": "hf", "key": "token"}}
    job = build(manifest=manifest, secrets=secrets).jobs[0]
    assert env_of(job)["HF_TOKEN"] == {"secretKeyRef": {"name": "hf", "key": "token"}}
    assert "hf_literal" not in json.dumps(job)


def test_the_templates_own_shared_memory_stays_unless_the_run_wants_some():
    manifest = template_container(volumeMounts=[{"name": "theirs", "mountPath": "/dev/shm"}])
    theirs = build(manifest=manifest).jobs[0]
    ours = build(make_launch(variables={"shm_size": "1Gi"}), manifest).jobs[0]

    def shm(job):
        mounts = container_of(job)["volumeMounts"]
        return [m["name"] for m in mounts if m["mountPath"] == "/dev/shm"]

    assert (shm(theirs), shm(ours)) == (["theirs"], ["prefect-gpu-shm"])


@pytest.mark.parametrize(
    "paths",
    [
        pytest.param(["/dev/shm"], id="where shared memory is"),
        pytest.param(["/models"], id="where the model cache is"),
        pytest.param(["/data", "/data"], id="where another volume is"),
    ],
)
def test_no_volume_hides_another(paths):
    volumes = [{"claim": "c", "mount_path": path} for path in paths]
    launch = make_launch(variables={"volumes": volumes})
    with pytest.raises(InvalidInput, match=r"volumes\.\d\.mount_path is taken"):
        build(launch, model_cache={"claim": "models"})


def test_kueue_admits_and_places():
    job = build(kueue_queue="gpus").jobs[0]
    assert job["spec"]["suspend"] is True
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "gpus"
    assert "affinity" not in pod_of(job)


def test_everything_of_a_job_is_deleted_with_it():
    manifests = build(make_launch(nodes=2, variables={"container_command": "torchrun x"}))
    created = manifests.jobs[0] | {"metadata": {"name": JOB_NAME, "uid": "u1"}}
    owner = owned_by(manifests.service, created)["metadata"]["ownerReferences"]
    assert owner == [{"apiVersion": "batch/v1", "kind": "Job", "name": JOB_NAME, "uid": "u1"}]


@pytest.mark.parametrize(
    ("manifest", "want"),
    [
        pytest.param({"kind": "Pod"}, "job_manifest.kind is not a Job", id="another kind"),
        pytest.param(template(containers=[]), "containers is empty", id="no container"),
    ],
)
def test_a_template_that_is_no_job_is_refused(manifest, want):
    with pytest.raises(InvalidInput, match=want):
        build(manifest=manifest)


@pytest.mark.parametrize(
    ("capacity_type", "stated_s", "want_grace_s", "want_url"),
    [
        pytest.param("on-demand", None, "120", None, id="the policy's"),
        pytest.param("spot", None, "110", "http://169.254.169.254", id="the provider's warning"),
        pytest.param("on-demand", 600, "600", None, id="the template's"),
        pytest.param("on-demand", 5, "35", None, id="what Prefect needs"),
        pytest.param("spot", 600, "110", "http://169.254.169.254", id="no more than is left"),
        pytest.param("spot", 60, "60", "http://169.254.169.254", id="the template's on spot"),
    ],
)
def test_a_run_reads_how_its_pod_ends(capacity_type, stated_s, want_grace_s, want_url):
    """The same number as the pod has; the provider is asked on spot only."""
    launch = make_launch(place=on_nodes("n1", capacity_type=capacity_type))
    manifest = TEMPLATE if stated_s is None else template(terminationGracePeriodSeconds=stated_s)
    policy = {"provisioner": "karpenter", "instance_metadata_url": "http://169.254.169.254"}
    (job,) = build(launch, manifest, **policy).jobs
    env = env_of(job)
    assert env["PREFECT_GPU_GRACE_S"] == want_grace_s
    assert str(pod_of(job)["terminationGracePeriodSeconds"]) == want_grace_s
    assert env.get("PREFECT_GPU_INSTANCE_METADATA_URL") == want_url


@pytest.mark.parametrize(
    ("provisioner", "place", "stated_s", "want_pod_s", "want_told"),
    [
        pytest.param("gke", "spot", None, 35, "15", id="GKE leaves 15 s"),
        pytest.param("gke", "spot", 600, 35, "15", id="whatever the template says"),
        pytest.param("aks", "spot", 600, 35, "30", id="AKS leaves 30 s"),
        pytest.param("gke", "on-demand", 600, 600, "600", id="a node that stays"),
        pytest.param("gke", None, 600, 35, "15", id="a node that may be on spot"),
        pytest.param("fixed", "spot", 600, 600, "600", id="a cloud that is not named"),
    ],
)
def test_a_run_reads_what_the_provider_leaves(provisioner, place, stated_s, want_pod_s, want_told):
    """The pod keeps what Prefect needs; it does no harm where the provider does not honor it."""
    where = (
        Wanted(gpu_types=("a100-80gb",)) if place is None else on_nodes("n", capacity_type=place)
    )
    manifest = TEMPLATE if stated_s is None else template(terminationGracePeriodSeconds=stated_s)
    (job,) = build(make_launch(place=where), manifest, provisioner=provisioner).jobs
    assert pod_of(job)["terminationGracePeriodSeconds"] == want_pod_s
    assert env_of(job)["PREFECT_GPU_GRACE_S"] == want_told
