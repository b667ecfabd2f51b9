"""A prefect.yaml that Prefect would take in silence is refused, all mistakes at once."""

from pathlib import Path

import pytest
from prefect.cli.deploy._models import (
    ConcurrencyLimitSpec,
    DeploymentConfig,
    PrefectYamlModel,
    RawScheduleConfig,
    WorkPoolConfig,
)

from gpu_core.cli.project.checks import PoolFacts, check_deployments, left_behind
from gpu_core.cli.project.file import read_project_file
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.pydantic_errors import known_names
from gpu_core.decisions.policy.policy import Policy

POLICY = Policy(version=1)
POOLS = {
    "gpu": PoolFacts(name="gpu", type="gpu-process", variables=frozenset({"rack"})),
    "cluster": PoolFacts(
        name="cluster", type="gpu-kubernetes", queues=frozenset({"default", "night"})
    ),
    "cpu": PoolFacts(name="cpu", type="process"),
}
DEPLOYMENT = """
deployments:
  - name: train
    entrypoint: train.py:train
    work_pool: {{name: {pool}, work_queue_name: {queue}, job_variables: {variables}}}
"""


def deployment(pool: str = "gpu", queue: str = "low", variables: str = "{}", more: str = "") -> str:
    """A file with one deployment."""
    text = DEPLOYMENT.format(pool=pool, queue=queue, variables=variables)
    return text + "".join(f"    {line}\n" for line in more.splitlines())


@pytest.fixture
def checked(tmp_path, monkeypatch):
    """What is wrong in a file with this text, and what could not be checked."""
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("@flow\ndef train(): ...\n")
    Path("run_container.py").write_text("@flow\ndef run_container(): ...\n")

    def check(text: str, *, is_cloud: bool = False) -> tuple[list[str], list[str]]:
        Path("prefect.yaml").write_text(text)
        project = read_project_file(Path("prefect.yaml"))
        problems, unchecked = check_deployments(project, POOLS, POLICY, is_cloud=is_cloud)
        return [str(each) for each in (*project.problems, *problems)], unchecked

    return check


@pytest.mark.parametrize(
    ("text", "want_parts"),
    [
        pytest.param(
            deployment(more="parameters: {day: 2031-01-02}"),
            ["parameters.day is a date in YAML", 'Write "2031-01-02"'],
            id="a date without quotes: `prefect deploy` ends with a traceback",
        ),
        pytest.param(
            deployment(more="parameters: {days: [2031-01-02 03:04:05]}"),
            ["parameters.days.0 is a datetime in YAML", "with quotes"],
            id="a moment without quotes",
        ),
        pytest.param(
            deployment(queue="hihg"),
            ["deployments[0] 'train' work_pool.work_queue_name is not a queue of the policy",
             "'hihg'", "'high'"],
            id="a misspelled queue, which Prefect would create",
        ),
        pytest.param(
            deployment(variables="{gpu_cuont: 2}"),
            ["work_pool.job_variables.gpu_cuont", "'gpu_count'"],
            id="a misspelled job variable, which Prefect would ignore",
        ),
        pytest.param(
            deployment(variables="{gpu_count: many}"),
            ["work_pool.job_variables.gpu_count", "'many'"],
            id="a job variable of the wrong type",
        ),
        pytest.param(
            deployment().replace("work_queue_name", "work_queue_nam"),
            ["prefect.yaml:5: deployments[0] 'train' work_pool.work_queue_nam is not a known name",
             "'work_queue_name'"],
            id="a misspelled key of work_pool",
        ),
        pytest.param(
            deployment().replace("job_variables", "job_varaibles"),
            ["work_pool.job_varaibles", "'job_variables'"],
            id="misspelled job variables as a whole",
        ),
        pytest.param(
            deployment(more="descripton: what it does"),
            ["prefect.yaml:6: deployments[0] 'train' descripton", "'description'"],
            id="a misspelled key of the deployment",
        ),
        pytest.param(
            deployment(more="concurrency_limit: {limit: 1, colision_strategy: ENQUEUE}"),
            ["concurrency_limit.colision_strategy", "'collision_strategy'"],
            id="a misspelled key of the limit",
        ),
        pytest.param(
            deployment(more='schedules: [{cron: "0 1 * * *", timezne: UTC}]'),
            ["schedules.0.timezne", "'timezone'"],
            id="a misspelled key of a schedule",
        ),
        pytest.param(
            deployment(more="triggers: [{expcet: [a]}]"),
            ["triggers.0.expcet", "'expect'"],
            id="a misspelled key of a trigger",
        ),
        pytest.param(
            deployment(more="triggers: [{type: compound, triggers: [{mtach: {}}]}]"),
            ["triggers.0.triggers.0.mtach", "'match'"],
            id="a misspelled key of a trigger in a trigger",
        ),
        pytest.param(
            "defintions: {}\n" + deployment(), ["defintions", "'definitions'"], id="at the top"
        ),
        pytest.param(
            deployment(more='schedules: [{cron: "99 * * * *"}]'),
            ["schedules.0.cron cannot be used", "99 * * * *"],
            id="no cron expression",
        ),
        pytest.param(
            deployment(more="schedules: [{timezone: UTC}]"),
            ["schedules.0 has no time", "one of cron, interval and rrule"],
            id="a schedule without a time",
        ),
        pytest.param(
            deployment(more="parameters: [1]"),
            ["deployments[0] 'train' parameters cannot be used", "dictionary"],
            id="a type for which Prefect would skip the whole file",
        ),
        pytest.param(
            deployment(more="paused: perhaps"), ["paused cannot be used"], id="no boolean"
        ),
        pytest.param(
            deployment(more="schedules: [3]"), ["schedules.0 cannot be used"], id="no schedule"
        ),
        pytest.param(
            "build: 3\n" + deployment(), ["prefect.yaml:1: build cannot be used"], id="no steps"
        ),
        pytest.param(
            deployment(more="sla: [{name: a, severity: high, duration: 10}]"),
            ["sla is only supported by Prefect Cloud"],
            id="a service level, which only Prefect Cloud has",
        ),
        pytest.param(
            deployment().replace("name: train\n", "description: no name\n"),
            ["deployments[0] name is missing"],
            id="no name, for which Prefect would skip it",
        ),
        pytest.param(
            deployment().replace("name: train\n", "name: train/it\n"),
            ["name contains an invalid character", "train/it"],
            id="a name with a slash",
        ),
        pytest.param(
            "deployments: [{name: train, entrypoint: train.py:train}]",
            ["work_pool.name is missing", "Add work_pool: {name: NAME}"],
            id="no pool",
        ),
        pytest.param(
            "deployments: [{name: train, entrypoint: train.py:train, work_pool: gpu}]",
            ["work_pool is not a mapping (got 'gpu'). Write work_pool: {name: gpu}"],
            id="a pool's name alone",
        ),
        pytest.param(
            deployment().replace("name: train\n", "nam: train\n"),
            ["deployments[0] nam is not a known name. Did you mean 'name'?"],
            id="a misspelled name",
        ),
        pytest.param(
            deployment(variables="{3: 4}"),
            ["job_variables.3 contains a name that is not"],
            id="number",
        ),
        pytest.param(
            deployment(queue="[low]"),
            ["work_pool.work_queue_name cannot be used (got ['low']). Allowed: a valid string"],
            id="a list of queues",
        ),
        pytest.param(
            deployment(more="concurrency_limit: {limit: few}"),
            ["concurrency_limit.limit cannot be used (got 'few')"],
            id="a value of one of several forms",
        ),
        pytest.param(
            deployment(pool="gup"), ["work_pool.name is not a work pool", "'gup'"], id="no such one"
        ),
        pytest.param(
            deployment().replace("train.py:train", "trian.py:train"),
            ["entrypoint refers to a file that does not exist: trian.py",
             "Did you mean 'train.py:train'?"],
            id="no such file",
        ),
        pytest.param(
            deployment().replace("train.py:train", "train.py:trian"),
            ["entrypoint does not refer to a function in train.py", "'train'"],
            id="no such function",
        ),
        pytest.param(
            deployment().replace("train.py:train", "no_such_package.train.train"),
            ["entrypoint names the package 'no_such_package', which is not installed"],
            id="no such package",
        ),
        pytest.param(
            deployment().replace("train.py:train", "'train.train:'"),
            ["entrypoint does not specify a function"],
            id="no function of a module",
        ),
        pytest.param(
            deployment(variables="{image: train:1}"),
            ["job_variables.image requires a pool of type gpu-kubernetes",
             "The pool 'gpu' is of type gpu-process"],
            id="an image on a pool of processes",
        ),
        pytest.param(
            deployment(variables="{container_command: nvidia-smi}"),
            ["job_variables.container_command requires a pool of type gpu-kubernetes"],
            id="a container on a pool of processes",
        ),
        pytest.param(
            deployment().replace("train.py:train", "run_container.py:run_container"),
            ["entrypoint represents a container and requires a pool of type gpu-kubernetes"],
            id="the flow of containers on a pool of processes",
        ),
        pytest.param(
            deployment(pool="cluster", queue="high"),
            ["is not a queue of the pool 'cluster'", "default, night"],
            id="a queue that another pool does not have",
        ),
        pytest.param(
            deployment(pool="cluster", queue="night", variables="{shm_size: much}"),
            ["job_variables.shm_size", "'much'"],
            id="a pod's variable on another GPU pool",
        ),
        pytest.param(
            deployment(pool="cluster", queue="night", variables="{backoff_limit: 3}"),
            ["job_variables.backoff_limit must be 0", "(got 3)", "max_failures"],
            id="a variable of prefect-kubernetes without effect",
        ),
        pytest.param(
            deployment(pool="cluster", queue="night", variables="{cluster_config: {config: {}}}"),
            ["job_variables.cluster_config can only be set for the pool", "the other cluster"],
            id="a cluster of its own",
        ),
        pytest.param(
            deployment() + deployment().removeprefix("\ndeployments:\n"),
            ["name must be unique for each flow", "deployments[0]"],
            id="one name twice",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(checked, text: str, want_parts: list[str]) -> None:
    """One message has the file, the deployment, the field, what came and what was meant."""
    (problem,), _ = checked(text)
    for part in want_parts:
        assert part in problem


def test_all_mistakes_of_all_deployments_come_at_once(checked) -> None:
    problems, _ = checked(
        "deployments:\n"
        "  - {name: a, entrypoint: train.py:train, descripton: x, tasg: [y],\n"
        "     work_pool: {name: gpu, work_queue_nam: low, job_variables: {gpu_cuont: 1}}}\n"
        "  - {name: b, entrypoint: tain.py:train, work_pool: {name: gpu, work_queue_name: lwo,\n"
        "     job_variables: {gpu_count: 0.5, team: [a], nodse: 2}}}\n"
        "  - {name: c, entrypoint: train.py:train}\n"
    )
    want = ["descripton", "tasg", "work_queue_nam", "entrypoint", "work_pool.name", "gpu_cuont",
            "work_queue_name", "nodse", "gpu_count", "team"]  # fmt: skip
    assert len(problems) == len(want)
    for name in want:
        assert any(f"{name} " in problem for problem in problems), name


@pytest.mark.parametrize("text", ["name: a\n", "deployments:\n", "deployments: []\npull: []\n"])
def test_a_file_without_deployments_is_a_project_file(checked, text: str) -> None:
    assert checked(text) == ([], [])


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("", "has no list of deployments", id="nothing"),
        pytest.param("deployments: 3", "has no list of deployments", id="no list"),
        pytest.param("deployments: [3]", "has no list of deployments", id="a list of other things"),
        pytest.param("deployments: [", "is not valid YAML", id="no YAML"),
        pytest.param("a: 1\n---\nb: 2\n", "is not valid YAML", id="two documents"),
        pytest.param("name: a\nname: b\ndeployments: []", "comes twice", id="a key twice"),
    ],
)
def test_what_is_no_project_file_is_refused(checked, text: str, want: str) -> None:
    with pytest.raises(InvalidInput, match=want):
        checked(text)


UNUSUAL = """
prefect-version: 3.8.8
name: vision
definitions:
  tags: &tags [a, b]
  work_pools:
    gpu: &gpu
      name: gpu
      work_queue_name: low
common: &common {team: vision}
x-anything: {at: all}
build:
  - prefect.deployments.steps.run_shell_script: {id: commit, script: git rev-parse HEAD}
push: null
pull:
  - prefect.deployments.steps.git_clone: {repository: https://git.example/a.git, branch: main}
deployments:
  - name: "{{ $TRAIN_NAME }}"
    version: "{{ commit.stdout }}"
    version_type: git
    tags: *tags
    description: >-
      Folded
      text.
    flow_name: train
    entrypoint: train.py:train
    parameters: {epochs: 3, path: "{{ prefect.variables.path }}"}
    enforce_parameter_schema: true
    paused: false
    concurrency_limit: {limit: 2, collision_strategy: CANCEL_NEW, grace_period_seconds: 60}
    schedules:
      - {cron: "0 1 * * *", timezone: Europe/Berlin, day_or: true, active: false, slug: night}
      - {interval: 3600, anchor_date: "2026-01-01T00:00:00Z", parameters: {epochs: 1}}
      - {interval: PT1H}
      - {rrule: "FREQ=DAILY", slug: daily, replaces: night}
    triggers:
      - {type: event, enabled: true, expect: [a.b], match: {a: b}, within: 60, threshold: 1,
         parameters: {name: "{{ event.name }}"}, job_variables: {gpu_count: 1}}
      - {type: compound, require: any, within: 60, triggers: [{type: event, expect: [a]}]}
      - {enabled: true, metric: {name: lateness, operator: ">", threshold: 1, range: 60,
         firing_for: 60}}
    build: []
    push: {}
    pull: []
    work_pool:
      <<: *gpu
      job_variables:
        <<: *common
        gpu_count: "{{ prefect.variables.gpus }}"
        env: {A: "{{ prefect.blocks.secret.a }}"}
        env.B: c
        working_dir: /tmp
        rack: r1
  - name: on-cloud
    entrypoint: prefect.train.train
    concurrency_limit: 3
    schedule: {cron: "0 1 * * *"}
    sla: [{name: late, severity: high, within: 600}]
    work_pool: {name: cpu, work_queue_name: anything, job_variables: {image: a}}
  - name: by-name
    entrypoint: train.py:train
    schedules: []
    work_pool: {name: "{{ $NO_SUCH_VARIABLE }}", job_variables: {}}
"""


def test_what_is_unusual_and_legal_passes(checked, monkeypatch) -> None:
    """Every key that Prefect reads is in it; what cannot be checked is reported."""
    monkeypatch.setenv("TRAIN_NAME", "train-it")
    problems, unchecked = checked(UNUSUAL, is_cloud=True)
    assert problems == []
    assert unchecked == [
        "deployment train-it: gpu_count is a template",
        "deployment train-it: env is a template",
        "deployment on-cloud: the type of its pool is process",
        "deployment by-name: the pool '{{ $NO_SUCH_VARIABLE }}' is a template",
    ]


@pytest.mark.parametrize(
    "model",
    [PrefectYamlModel, DeploymentConfig, WorkPoolConfig, ConcurrencyLimitSpec, RawScheduleConfig],
)
def test_the_unusual_file_has_every_key_of_prefects_own_models(model) -> None:
    """A key that a newer Prefect reads is missed here, not at a user's."""
    assert [name for name in known_names(model) if f"{name}:" not in UNUSUAL] == []


@pytest.mark.parametrize(
    ("source", "entrypoint"),
    [
        pytest.param("async def train(): ...", "flow.py:train", id="asynchronous"),
        pytest.param("train = flow(other)", "flow.py:train", id="assigned"),
        pytest.param("from other import train", "flow.py:train", id="imported"),
        pytest.param("from other import *", "flow.py:train", id="imported with a star"),
        pytest.param("class A:\n  def train(): ...", "flow.py:A.train", id="a method"),
        pytest.param("if 1:\n  def train(): ...", "./flow.py:train", id="in a condition"),
        pytest.param("", "flow.train", id="a module of this folder"),
        pytest.param("", "prefect.flows.train", id="an installed module"),
        pytest.param("", "prefect.flows:train", id="an installed module with a colon"),
    ],
)
def test_entrypoints_of_all_forms_pass(checked, source: str, entrypoint: str) -> None:
    Path("flow.py").write_text(source)
    assert checked(deployment().replace("train.py:train", entrypoint)) == ([], [])


PULL = "pull: [{prefect.deployments.steps.git_clone: {repository: https://example.com/r}}]"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(deployment("cluster"), ["deployment train"], id="code of this folder"),
        pytest.param(deployment("cluster", more=PULL), [], id="a pull step of its own"),
        pytest.param(f"{PULL}\n{deployment('cluster')}", [], id="a pull step for all"),
        pytest.param(deployment("gpu"), [], id="processes of this machine"),
        pytest.param(
            deployment("cluster").replace("train.py:train", "json.dumps"), [], id="a module"
        ),
        pytest.param(
            deployment("cluster", variables="{container_command: a}"), [], id="a container"
        ),
    ],
)
def test_code_that_no_pod_would_find_is_reported(tmp_path, text: str, want: list[str]) -> None:
    path = tmp_path / "prefect.yaml"
    path.write_text(text)
    assert left_behind(read_project_file(path), POOLS) == want
