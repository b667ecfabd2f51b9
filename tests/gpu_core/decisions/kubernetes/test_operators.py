"""Runs that an operator spreads over pods."""

from datetime import UTC, datetime

import pytest

from gpu_core.decisions.kubernetes.lint import lint
from gpu_core.decisions.kubernetes.operators import (
    PodSet,
    build_custom_job,
    custom_job_outcome,
    has_been_kept,
)
from gpu_core.decisions.kubernetes.status.outcome import Cause, ChargedParty, Phase
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.testing.builders.manifests import (
    ATTEMPT_ID,
    JOB_NAME,
    TEMPLATE,
    make_kubernetes_policy,
    make_launch,
)
from tests.support.kubernetes_schemas import FIRST_AND_LAST, schema_errors

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def custom_job(framework, gpus=8, nodes=2, command="train.py --fast", **options):
    """The custom object of a run, under a policy with the options that are the policy's."""
    suspended = options.pop("is_suspended", False)
    shape = options.pop("shape", {})
    variables = {"framework": framework, "container_command": command, "image": "train:1"}
    launch = make_launch(gpus, nodes=nodes, shape=shape, variables=variables, max_duration_s=3600)
    return build_custom_job(
        TEMPLATE, launch, make_kubernetes_policy(**options), is_suspended=suspended
    )


def as_pod(template):
    """The template as a Pod, for the schema check."""
    return {"apiVersion": "v1", "kind": "Pod", **template}


FRAMEWORKS = ["ray", "kubeflow", "spark"]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_all_are_found_by_the_same_labels_under_the_same_name(framework):
    metadata = custom_job(framework).manifest["metadata"]
    assert metadata["name"] == JOB_NAME
    assert metadata["namespace"] == "ml"
    assert metadata["labels"]["prefect-gpu.dev/attempt-id"] == ATTEMPT_ID
    assert "generateName" not in metadata


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize(
    ("options", "want_suspended", "want_queue"),
    [
        pytest.param({}, False, None, id="at once"),
        pytest.param({"is_suspended": True}, True, None, id="made, and not begun"),
        pytest.param({"kueue_queue": "gpus"}, True, "gpus", id="Kueue admits it"),
    ],
)
def test_start(framework, options, want_suspended, want_queue):
    manifest = custom_job(framework, **options).manifest
    assert manifest["spec"]["suspend"] is want_suspended
    assert manifest["metadata"]["labels"].get("kueue.x-k8s.io/queue-name") == want_queue


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_no_findings_in_what_they_make(framework):
    assert lint(custom_job(framework).manifest, make_kubernetes_policy()) == ()


@pytest.mark.parametrize(
    ("framework", "want"),
    [
        pytest.param("ray", (("head", 1, 0), ("gpu", 2, 8)), id="a head and a worker a node"),
        pytest.param("kubeflow", (("node", 2, 8),), id="a pod for each node"),
        pytest.param("spark", (("driver", 1, 0), ("executor", 16, 1)), id="an executor a GPU"),
    ],
)  # fmt: skip
def test_the_gang_that_will_come_of_it(framework, want):
    found = custom_job(framework)
    assert found.pod_sets == tuple(PodSet(name=n, count=c, gpus_per_pod=g) for n, c, g in want)
    assert found.total_gpus == 16


def test_ray():
    spec = custom_job("ray").manifest["spec"]
    assert spec["entrypoint"] == "train.py --fast"
    assert (spec["backoffLimit"], spec["shutdownAfterJobFinishes"]) == (0, True)
    cluster = spec["rayClusterSpec"]
    (group,) = cluster["workerGroupSpecs"]
    assert {group[k] for k in ("replicas", "minReplicas", "maxReplicas")} == {2}
    head, worker = cluster["headGroupSpec"]["template"], group["template"]
    submitter = spec["submitterPodTemplate"]
    roles = [pod["metadata"]["labels"]["prefect-gpu.dev/role"] for pod in (submitter, head, worker)]
    assert roles == ["submitter", "head", "member"]
    for pod in (submitter, head, worker):
        container = pod["spec"]["containers"][0]
        assert container["image"] == "train:1"
        assert not {"command", "args"} & container.keys()
        assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
        assert schema_errors(as_pod(pod), FIRST_AND_LAST) == []
    assert worker["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "8"
    assert "nvidia.com/gpu" not in head["spec"]["containers"][0]["resources"]["limits"]


def test_a_head_keeps_no_worker_off_its_node():
    """Workers stay away from each other, not from what leads them."""
    cluster = custom_job("ray").manifest["spec"]["rayClusterSpec"]
    head = cluster["headGroupSpec"]["template"]
    worker = cluster["workerGroupSpecs"][0]["template"]
    (rule,) = worker["spec"]["affinity"]["podAntiAffinity"][REQUIRED]
    wanted = rule["labelSelector"]["matchLabels"].items()
    assert wanted <= worker["metadata"]["labels"].items()
    assert not wanted <= head["metadata"]["labels"].items()
    assert "affinity" not in head["spec"]


def test_kubeflow():
    spec = custom_job("kubeflow").manifest["spec"]
    assert spec["runtimeRef"]["name"] == "torch-distributed"
    trainer = spec["trainer"]
    assert (trainer["numNodes"], trainer["numProcPerNode"]) == (2, 8)
    assert trainer["command"] == ["train.py", "--fast"]
    assert trainer["resourcesPerNode"]["limits"]["nvidia.com/gpu"] == "8"
    # Trainer refuses them: they are its own.
    assert not any(item["name"].startswith("PET_") for item in trainer["env"])
    (patch,) = spec["runtimePatches"]
    (node,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    pod = node["template"]["spec"]["template"]
    assert pod["metadata"]["labels"]["prefect-gpu.dev/attempt-id"] == ATTEMPT_ID
    assert pod["spec"].keys() == {
        "affinity",
        "containers",
        "securityContext",
        "terminationGracePeriodSeconds",
        "tolerations",
        "volumes",
    }
    (container,) = pod["spec"]["containers"]
    assert container.keys() == {"name", "securityContext", "volumeMounts"}


@pytest.mark.parametrize(
    ("part", "want"),
    [
        pytest.param({"gpu_share_milli": 250}, {"nvidia.com/gpu.shared": "1"}, id="a share"),
        pytest.param(
            {"gpu_share_milli": 125, "mig_profile": "1g.10gb"},
            {"nvidia.com/mig-1g.10gb": "1"},
            id="an instance",
        ),
    ],
)
def test_who_leads_needs_as_much_beside_parts_of_gpus(part, want):
    def resources(shape):
        cluster = custom_job("ray", 1, shape=shape).manifest["spec"]["rayClusterSpec"]
        groups = (cluster["headGroupSpec"], cluster["workerGroupSpecs"][0])
        return [g["template"]["spec"]["containers"][0]["resources"]["limits"] for g in groups]

    head, worker = resources(part)
    assert head == resources({})[0]
    assert worker.items() >= want.items()


@pytest.mark.parametrize("part", [{"gpu_share_milli": 250}, {"mig_profile": "1g.10gb"}])
def test_spark_takes_whole_gpus(part):
    with pytest.raises(InvalidInput, match=r"^framework 'spark' requires whole GPUs"):
        custom_job("spark", 1, shape=part)


def test_spark():
    policy = {"per_gpu": {"a100-80gb": {"cpu": 4, "memory_gib": 20}}}
    spec = custom_job("spark", **policy).manifest["spec"]
    assert (spec["type"], spec["mainApplicationFile"]) == ("Python", "train.py")
    assert (spec["arguments"], spec["restartPolicy"]) == (["--fast"], {"type": "Never"})
    executor = spec["executor"]
    assert (executor["instances"], executor["cores"], executor["coreRequest"]) == (16, 4, "4")
    heap, overhead = int(executor["memory"][:-1]), int(executor["memoryOverhead"][:-1])
    assert heap + overhead == 20 * 1024
    assert spec["sparkConf"]["spark.task.resource.gpu.amount"] == "0.25"
    assert "podAntiAffinity" not in executor["template"]["spec"]["affinity"]
    for role in ("driver", "executor"):
        assert schema_errors(as_pod(spec[role]["template"]), FIRST_AND_LAST) == []
    assert "sparkConf" not in custom_job("spark", gpus=0, nodes=1).manifest["spec"]


def test_spark_from_a_jar():
    spec = custom_job("spark", command="--class org.Main local:///app.jar --day 1").manifest["spec"]
    assert (spec["type"], spec["mainClass"]) == ("Scala", "org.Main")
    assert (spec["mainApplicationFile"], spec["arguments"]) == (
        "local:///app.jar",
        ["--day", "1"],
    )


@pytest.mark.parametrize(
    ("framework", "options", "want"),
    [
        pytest.param("none", {}, "framework has no operator", id="no framework"),
        pytest.param("torchrun", {}, "framework has no operator", id="a Job of our own"),
        pytest.param("ray", {"command": None}, "command is missing", id="nothing to run"),
        pytest.param(
            "spark", {"command": "python x"}, "does not begin with a Spark application", id="no app"
        ),
        pytest.param(
            "spark",
            {"gpus": 1, "nodes": 1, "shape": {"mig_profile": "1g.10gb"}},
            "requires whole GPUs",
            id="Spark on a MIG instance",
        ),
    ],
)
def test_what_cannot_be_is_refused(framework, options, want):
    with pytest.raises(InvalidInput, match=want):
        custom_job(framework, **options)


def ray(deployment, job="", **status):
    """A RayJob in this state."""
    return {
        "kind": "RayJob",
        "status": {"jobDeploymentStatus": deployment, "jobStatus": job, **status},
    }


def train(*conditions, **status):
    """A TrainJob with these conditions: `(type, reason, message)`."""
    found = [{"type": t, "status": "True", "reason": r, "message": m} for t, r, m in conditions]
    return {"kind": "TrainJob", "status": {"conditions": found, **status}}


def spark(state, message=""):
    """A SparkApplication in this state."""
    return {
        "kind": "SparkApplication",
        "status": {"applicationState": {"state": state, "errorMessage": message}},
    }


@pytest.mark.parametrize(
    ("manifest", "want_phase", "want_cause", "want_words"),
    [
        pytest.param({"kind": "RayJob"}, Phase.PENDING, Cause.CREATING, "", id="Ray: just made"),
        pytest.param(
            ray("Initializing"), Phase.PENDING, Cause.CREATING, "Initializing", id="Ray: starting"
        ),
        pytest.param(
            ray("Running", "PENDING"), Phase.PENDING, Cause.CREATING, "", id="Ray: not begun"
        ),
        pytest.param(ray("Running", "RUNNING"), Phase.RUNNING, Cause.RUNNING, "", id="Ray: runs"),
        pytest.param(
            ray("Complete", "SUCCEEDED"), Phase.SUCCEEDED, Cause.COMPLETED, "", id="Ray: done"
        ),
        pytest.param(
            ray("Failed", "FAILED", message="Job entrypoint command failed"),
            Phase.FAILED,
            Cause.FAILED,
            "entrypoint command failed",
            id="Ray: failed",
        ),
        pytest.param(
            ray("Failed", reason="DeadlineExceeded"), Phase.FAILED, Cause.DEADLINE, "", id="late"
        ),
        pytest.param(
            ray("ValidationFailed", message="bad name"), Phase.FAILED, Cause.FAILED, "bad name",
            id="Ray: refused",
        ),
        pytest.param(
            ray("Complete", "STOPPED"), Phase.FAILED, Cause.DELETED, "stopped", id="Ray: stopped"
        ),
        pytest.param(ray("Suspended"), Phase.PENDING, Cause.SUSPENDED, "", id="Ray: suspended"),
        pytest.param({"kind": "TrainJob"}, Phase.PENDING, Cause.CREATING, "", id="Trainer: made"),
        pytest.param(
            train(("Suspended", "Suspended", "")), Phase.PENDING, Cause.SUSPENDED, "",
            id="Trainer: suspended",
        ),
        pytest.param(
            train(jobsStatus=[{"name": "node", "ready": 1}]), Phase.RUNNING, Cause.RUNNING, "",
            id="Trainer: runs",
        ),
        pytest.param(
            train(("Complete", "JobsCompleted", "")), Phase.SUCCEEDED, Cause.COMPLETED, "",
            id="Trainer: done",
        ),
        pytest.param(
            train(("Failed", "JobsFailed", "jobset failed")), Phase.FAILED, Cause.FAILED,
            "jobset failed", id="Trainer: failed",
        ),
        pytest.param(spark(""), Phase.PENDING, Cause.CREATING, "", id="Spark: made"),
        pytest.param(
            spark("SUBMITTED"), Phase.PENDING, Cause.CREATING, "SUBMITTED", id="Spark: submitted"
        ),
        pytest.param(spark("FAILING"), Phase.RUNNING, Cause.RUNNING, "", id="Spark: still there"),
        pytest.param(spark("COMPLETED"), Phase.SUCCEEDED, Cause.COMPLETED, "", id="Spark: done"),
        pytest.param(
            spark("FAILED", "driver container failed"), Phase.FAILED, Cause.FAILED,
            "driver container failed", id="Spark: failed",
        ),
        pytest.param(spark("SUSPENDED"), Phase.PENDING, Cause.SUSPENDED, "", id="Spark: suspended"),
    ],
)  # fmt: skip
def test_status(manifest, want_phase, want_cause, want_words):
    found = custom_job_outcome(manifest)
    assert (found.phase, found.cause) == (want_phase, want_cause)
    assert want_words in found.message


def test_pods_show_a_disruption_that_the_operator_calls_a_failure():
    evicted = {
        "status": {
            "phase": "Failed",
            "conditions": [
                {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
            ],
        }
    }
    found = custom_job_outcome(spark("FAILED"), [evicted])
    assert (found.cause, found.charge) == (Cause.EVICTED, ChargedParty.INTERRUPTION)
    assert custom_job_outcome(spark("COMPLETED"), [evicted]).phase is Phase.SUCCEEDED


def test_pods_that_an_operator_takes_away_are_no_disruption():
    deleted = {
        "metadata": {"deletionTimestamp": "2026-03-04T12:00:00Z"},
        "status": {
            "phase": "Failed",
            "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 143}}}],
        },
    }
    found = custom_job_outcome(ray("Failed", "FAILED", message="no data"), [deleted])
    assert (found.cause, found.charge) == (Cause.FAILED, ChargedParty.RUN)


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(ray("Complete", "SUCCEEDED", endTime="2026-03-04T12:00:00Z"), id="Ray"),
        pytest.param(
            {
                "kind": "TrainJob",
                "status": {
                    "conditions": [
                        {"type": "Suspended", "status": "False", "lastTransitionTime": "early"},
                        {
                            "type": "Failed",
                            "status": "True",
                            "lastTransitionTime": "2026-03-04T12:00:00Z",
                        },
                    ]
                },
            },
            id="Trainer",
        ),
        pytest.param(
            {
                "kind": "SparkApplication",
                "status": {
                    "applicationState": {"state": "COMPLETED"},
                    "terminationTime": "2026-03-04T12:00:00Z",
                },
            },
            id="Spark",
        ),
    ],
)
def test_when_it_ended(manifest):
    assert custom_job_outcome(manifest).ended_at == "2026-03-04T12:00:00Z"


def test_it_is_not_over_while_a_pod_may_run():
    head = {"status": {"phase": "Running"}}
    assert custom_job_outcome(ray("Failed", "FAILED"), [head]).phase is Phase.RUNNING


def test_another_kind_is_refused():
    with pytest.raises(InvalidInput, match="not an object of a known operator"):
        custom_job_outcome({"kind": "MPIJob"})


NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
LATE, EARLY = "2026-03-04T11:59:01Z", "2026-03-04T11:59:00Z"


@pytest.mark.parametrize(
    ("manifest", "want"),
    [
        pytest.param(ray("Complete", "SUCCEEDED", endTime=EARLY), True, id="for a minute"),
        pytest.param(ray("Complete", "SUCCEEDED", endTime=LATE), False, id="for less"),
        pytest.param(ray("Failed", "FAILED", endTime=EARLY), True, id="it failed"),
        pytest.param(ray("Running", "RUNNING"), False, id="it runs, however long"),
        pytest.param(ray("", ""), False, id="it has not begun"),
        pytest.param(spark("SUSPENDED"), False, id="Kueue has its own line"),
        pytest.param(
            spark("SUBMISSION_FAILED"), True, id="it does not say when: since it was made"
        ),
    ],
)
def test_what_is_over_stays_for_a_while(manifest, want):
    made = {**manifest, "metadata": {"creationTimestamp": EARLY}}
    assert has_been_kept(made, 60, NOON) is want
