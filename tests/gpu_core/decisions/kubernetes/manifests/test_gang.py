"""Several nodes at once: two forms for two ages of Kubernetes, one environment."""

import subprocess

import pytest

from gpu_core.decisions.kubernetes.manifests.launch import Wanted
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.testing.builders.manifests import (
    ATTEMPT_ID,
    JOB_NAME,
    build,
    container_of,
    env_of,
    make_launch,
    pod_of,
    template_container,
)
from tests.support.kubernetes_schemas import schema_errors

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
COMMAND = {"container_command": "torchrun train.py --name 'a b'"}
RANKS = ("NODE_RANK", "PET_NODE_RANK")
INDEX = "batch.kubernetes.io/job-completion-index"


def gang(gpus=8, nodes=3, **changes):
    """A flow on several nodes."""
    return make_launch(gpus, nodes=nodes, variables=COMMAND, **changes)


def test_an_indexed_job_has_one_pod_for_each_node():
    (job,) = build(gang()).jobs
    spec = job["spec"]
    assert (spec["completions"], spec["parallelism"], spec["completionMode"]) == (3, 3, "Indexed")
    assert pod_of(job)["subdomain"] == JOB_NAME
    assert "hostname" not in pod_of(job)


@pytest.mark.parametrize("version", ["1.20", "1.25"])
def test_before_1_26_there_is_a_job_for_each_node(version):
    jobs = build(gang(), version=version).jobs
    assert [job["metadata"]["name"] for job in jobs] == [f"{JOB_NAME}-{rank}" for rank in range(3)]
    assert [pod_of(job)["hostname"] for job in jobs] == [f"{JOB_NAME}-{rank}" for rank in range(3)]
    for rank, job in enumerate(jobs):
        assert job["metadata"]["labels"]["prefect-gpu.dev/node-rank"] == str(rank)
        assert [env_of(job)[name] for name in RANKS] == [str(rank)] * 2
        assert (job["spec"]["completions"], job["spec"]["parallelism"]) == (1, 1)
        terms = pod_of(job)["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
        assert [term["matchFields"][0]["values"] for term in terms] == [[f"n{rank + 1}"]]
        assert schema_errors(job) == []


def test_a_gang_is_one_job_where_kueue_admits_it():
    """Kueue admits a Job at a time; the pods of an Indexed Job must not keep off each other."""
    (job,) = build(gang(), version="1.24", kueue_queue="gpus").jobs
    assert job["spec"]["completionMode"] == "Indexed"
    rules = pod_of(job)["affinity"]["podAntiAffinity"][REQUIRED]
    assert all("job-name" not in rule["labelSelector"]["matchLabels"] for rule in rules)


def test_both_forms_give_the_run_the_same():
    def reported(job):
        return {name: value for name, value in env_of(job).items() if name not in RANKS}

    (indexed,) = build(gang()).jobs
    assert [reported(job) for job in build(gang(), version="1.20").jobs] == [reported(indexed)] * 3
    env = env_of(indexed)
    assert env["MASTER_ADDR"] == env["PET_MASTER_ADDR"] == f"{JOB_NAME}-0.{JOB_NAME}"
    assert env["MASTER_PORT"] == env["PET_MASTER_PORT"] == "29500"
    assert (env["NNODES"], env["PET_NNODES"], env["WORLD_SIZE"]) == ("3", "3", "24")
    assert env["PET_NPROC_PER_NODE"] == "8"
    index = {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX}']"}}
    assert [env[name] for name in RANKS] == [index] * 2


@pytest.mark.parametrize(
    ("gpus", "want"),
    [
        pytest.param(8, "8", id="a process for each GPU"),
        pytest.param(1, None, id="torchrun starts one"),
        pytest.param(0, None, id="no GPU"),
    ],
)
def test_torchrun_starts_a_process_for_each_gpu_of_one_node_too(gpus, want):
    place = Wanted() if not gpus else None
    launch = make_launch(gpus, **({"place": place} if place else {}))
    env = env_of(build(launch).jobs[0])
    assert env.get("PET_NPROC_PER_NODE") == want
    assert "PET_MASTER_ADDR" not in env


def pods_of(manifests):
    """A gang's pods as the cluster makes them, by rank: host name, pod template, variables.

    Those of an Indexed Job get their host name, and an annotation with their index, from it.
    """
    index = {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX}']"}}
    found = []
    for job in manifests.jobs:
        spec, is_indexed = job["spec"], job["spec"].get("completionMode") == "Indexed"
        for number in range(spec["completions"]):
            name = f"{job['metadata']['name']}-{number}"
            env = {k: str(number) if v == index else v for k, v in env_of(job).items()}
            host_name = name if is_indexed else pod_of(job)["hostname"]
            found.append((host_name, spec["template"], env))
    return found


@pytest.mark.parametrize("version", ["1.20", "1.36"])
@pytest.mark.parametrize("gpus", [1, 8])
def test_every_rank_finds_the_first_by_its_address(version, gpus):
    manifests = build(gang(gpus), version=version)
    service = manifests.service
    pods = pods_of(manifests)
    first = f"{pods[0][0]}.{service['metadata']['name']}"
    for rank, (host_name, template, env) in enumerate(pods):
        assert len(host_name) <= 63  # of a DNS label (RFC 1123)
        assert template["spec"]["subdomain"] == service["metadata"]["name"]
        assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
        assert (env["MASTER_ADDR"], env["NODE_RANK"]) == (first, str(rank))
    assert len(pods) == 3


@pytest.mark.parametrize("gpus", [1, 8])
def test_a_rank_gets_the_same_from_an_indexed_job_as_from_its_own(gpus):
    indexed, own = (pods_of(build(gang(gpus), version=version)) for version in ("1.36", "1.20"))
    assert [(name, env) for name, _, env in indexed] == [(name, env) for name, _, env in own]


def test_one_process_on_each_node_needs_no_launcher():
    ranks = [env for _, _, env in pods_of(build(gang(1)))]
    assert [(env["RANK"], env["LOCAL_RANK"], env["WORLD_SIZE"]) for env in ranks] == [
        (str(rank), "0", "3") for rank in range(3)
    ]
    assert {"RANK", "LOCAL_RANK"}.isdisjoint(env_of(build(gang(8)).jobs[0]))


def test_the_pods_have_names_before_they_are_ready():
    service = build(gang()).service
    assert service["metadata"]["name"] == JOB_NAME
    assert service["metadata"]["namespace"] == "ml"
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["selector"] == {"prefect-gpu.dev/attempt-id": ATTEMPT_ID}
    assert schema_errors(service) == []


def test_no_node_gets_two_of_the_pods():
    (job,) = build(gang()).jobs
    affinity = pod_of(job)["affinity"]
    (rule,) = affinity["podAntiAffinity"][REQUIRED]
    assert rule["topologyKey"] == "kubernetes.io/hostname"
    own = job["spec"]["template"]["metadata"]["labels"]
    assert rule["labelSelector"]["matchLabels"].items() <= own.items()
    terms = affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert [term["matchFields"][0]["values"] for term in terms] == [["n1"], ["n2"], ["n3"]]
    assert "podAffinity" not in affinity


@pytest.mark.parametrize(
    ("shape", "gangs", "want"),
    [
        pytest.param({}, {}, "topology.kubernetes.io/zone", id="one zone"),
        pytest.param({"same_label": "rack"}, {}, "rack", id="what the run says"),
        pytest.param({}, {"zone_label": None}, None, id="anywhere"),
    ],
)
def test_nodes_that_are_to_come_are_near_each_other(shape, gangs, want):
    launch = gang(place=Wanted(), shape=shape)
    affinity = pod_of(build(launch, gangs=gangs).jobs[0])["affinity"]
    keys = [rule["topologyKey"] for rule in affinity.get("podAffinity", {}).get(REQUIRED, ())]
    assert keys == ([want] if want else [])


@pytest.mark.parametrize(
    ("rank", "want"),
    [
        pytest.param("0", "flow-run execute", id="the first runs the flow"),
        pytest.param("1", "train.py --name a b", id="the others run the command"),
    ],
)
@pytest.mark.parametrize(
    "container",
    [
        pytest.param({"args": ["echo", "flow-run", "execute"]}, id="behind the entry point"),
        pytest.param({"command": ["echo", "flow-run", "execute"], "args": None}, id="as command"),
    ],
)
def test_one_node_reports_to_prefect(rank, want, container, tmp_path):
    """Every pod of an Indexed Job has the same container, so the container itself has to choose."""
    launch = make_launch(nodes=2, variables={"container_command": "echo train.py --name 'a b'"})
    found = container_of(build(launch, template_container(**container)).jobs[0])
    words = found.get("args") or found["command"]
    result = subprocess.run(
        words, env=shell_environment(rank, complete(tmp_path)), capture_output=True, check=True
    )
    assert result.stdout.decode().strip() == want


def shell_environment(rank, gang_file):
    return {"NODE_RANK": rank, "PREFECT_GPU_GANG_FILE": str(gang_file), "PATH": "/usr/bin:/bin"}


def complete(folder):
    """The file as the kubelet writes it when the gang is complete."""
    file = folder / "gang"
    file.write_text("complete")
    return file


def gang_script(**policy):
    launch = make_launch(nodes=2, variables={"container_command": "echo others"})
    template = template_container(args=["echo", "flow"])
    return container_of(build(launch, template, **policy).jobs[0])["args"]


def test_the_flow_begins_when_the_gang_is_complete(tmp_path):
    file = tmp_path / "gang"
    file.touch()
    process = subprocess.Popen(
        gang_script(), env=shell_environment("0", file), stdout=subprocess.PIPE
    )
    with process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1.5)
        file.write_text("complete")
        output, _ = process.communicate()
    assert output == b"flow\n"


def test_a_first_node_that_waits_for_its_gang_ends_on_sigterm(tmp_path):
    process = subprocess.Popen(
        # The name appears once the trap is set, which comes before.
        ["/bin/sh", "-xc", gang_script()[-1]],
        env=shell_environment("0", tmp_path / "gang"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        assert process.stderr is not None
        while b"sleep" not in process.stderr.readline():
            pass
        process.terminate()
        output, _ = process.communicate()
    assert (process.returncode, output) == (143, b"")


def test_without_a_worker_the_flow_begins_after_the_pending_timeout(tmp_path):
    command = gang_script(pending_timeout="1s")
    environment = shell_environment("0", tmp_path / "gang")
    result = subprocess.run(command, env=environment, capture_output=True, check=True)
    assert result.stdout == b"flow\n"


def test_the_gang_file_is_in_the_folder_of_the_notice():
    """For flows alone: containers of a gang start and wait for each other themselves."""
    for is_flow in (True, False):
        pod = pod_of(build(gang(is_flow=is_flow)).jobs[0])
        (notice,) = (v for v in pod["volumes"] if v["name"] == "prefect-gpu-notice")
        paths = [item["path"] for item in notice["downwardAPI"]["items"]]
        assert ("gang" in paths) is is_flow
        names = {item["name"] for item in pod["containers"][0]["env"]}
        assert ("PREFECT_GPU_GANG_FILE" in names) is is_flow


def test_the_first_node_starts_the_flow_as_its_command_says():
    """Prefect renders the job variable `command` into the arguments of the container."""
    launch = make_launch(nodes=2, variables={"container_command": "torchrun train.py"})
    template = template_container(args=["uv", "run", "prefect", "flow-run", "execute"])
    script = container_of(build(launch, template).jobs[0])["args"][-1]
    assert "exec uv run prefect flow-run execute; fi" in script
    assert script.endswith("exec torchrun train.py")


def test_a_gang_of_a_flow_needs_a_command_for_the_others():
    with pytest.raises(InvalidInput, match=r"container_command is missing\. With nodes > 1"):
        build(make_launch(nodes=2))


def test_a_container_job_runs_its_command_on_every_node():
    launch = gang(is_flow=False)
    container = container_of(build(launch).jobs[0])
    assert container["command"] == ["torchrun", "train.py", "--name", "a b"]
