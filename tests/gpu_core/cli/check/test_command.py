"""`prefect-gpu check`: every kind of file, good and bad, without a server and without a cluster."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpu_core.cli.main import main
from gpu_core.worker import WORKERS

POLICY = "version: 1\nkubernetes: {version: '1.34'}\n"
MANIFEST = """apiVersion: v1
kind: Pod
metadata: {name: train, namespace: ml}
spec:
  securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
  tolerations: [{key: nvidia.com/gpu, operator: Exists}]
  containers:
    - name: main
      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
      resources: {limits: {nvidia.com/gpu: 1}}
"""
PROJECT = """
deployments:
  - name: gpu
    entrypoint: gpu_core.flows.run_container.run_container
    work_pool: {name: gpu, work_queue_name: high, job_variables: {gpu_count: 1, shm_size: 1Gi}}
"""
CONFIG_MAP = """apiVersion: v1
kind: ConfigMap
metadata: {name: policy, namespace: gpu}
data:
  policy.yaml: |
    version: 1
    kubernets: {}
"""


def hook(**labels: str) -> str:
    """A chart's Job, whose owner lets Kubernetes try again."""
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "hook"},
        "spec": {"template": {"metadata": {"labels": labels}, "spec": {}}},
    }
    return json.dumps(job)


@pytest.mark.parametrize(
    ("name", "text", "want"),
    [
        pytest.param("p.yaml", POLICY, "p.yaml: policy: no issues found", id="a policy"),
        pytest.param(
            "p.yaml", MANIFEST, "p.yaml: 1 Kubernetes object: no issues found", id="a manifest"
        ),
        pytest.param(
            "prefect.yaml", PROJECT, "/prefect.yaml: no issues found", id="a prefect.yaml"
        ),
        pytest.param("p.json", hook(), "1 Kubernetes object: no issues found", id="a chart's hook"),
        pytest.param(
            "p.json",
            json.dumps(WORKERS["gpu-kubernetes"].get_default_base_job_template()),
            "base job template: no issues found",
            id="the template of a cluster's pool",
        ),
        pytest.param(
            "p.json",
            json.dumps(WORKERS["gpu-process"].get_default_base_job_template()),
            "base job template: no issues found",
            id="the template of a machine's pool",
        ),
    ],
)
def test_good_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, want: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert main(["check", str(path)]) == 0
    assert want in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "text", "want"),
    [
        pytest.param(
            "p.yaml",
            "version: 1\nprices: {}\nkubernets: {}\n",
            "error invalid-input at line 3: kubernets: is not a known name. Did you mean "
            "'kubernetes'?",
            id="a misspelled key of a policy",
        ),
        pytest.param(
            "p.yaml",
            "a: 1\nb: [1,\n",
            "error invalid-input at line 3: column 1: is not valid YAML",
            id="no YAML",
        ),
        pytest.param(
            "p.json", '{"a": 1,\n "b" 2}', "at line 2: column 6: is not valid JSON", id="no JSON"
        ),
        pytest.param(
            "p.yaml",
            MANIFEST.replace("gpu: 1", "gpu: 0.5"),
            "error gpu-not-whole at line 10: Pod ml/train: "
            "spec.containers[0].resources.limits.nvidia.com/gpu: 0.5 is not a whole number",
            id="half a GPU",
        ),
        pytest.param(
            "p.yaml",
            f"{POLICY.replace('version: 1', 'kind: x', 1)}---\n{MANIFEST}---\n"
            + MANIFEST.replace("gpu: 1", "gpu: 0.5"),
            "line 24: Pod ml/train: spec.containers[0].resources",
            id="the third document",
        ),
        pytest.param(
            "p.yaml",
            CONFIG_MAP,
            "at line 7: ConfigMap gpu/policy data.policy.yaml: kubernets: is not a known name",
            id="a policy in a ConfigMap",
        ),
        pytest.param(
            "p.yaml",
            '{"apiVersion": "v1", "kind": "List", "items": [{"kind": "Pod", "spec": {}}]}',
            "Pod without a name: apiVersion: is required by the API server",
            id="an item of a List",
        ),
        pytest.param(
            "p.json",
            hook(**{"prefect-gpu.dev/pool": "gpu"}),
            "error two-owners-of-retries",
            id="a run's Job",
        ),
        pytest.param(
            "prefect.yaml",
            PROJECT.replace("shm_size", "shm_sise"),
            "work_pool.job_variables.shm_sise: is not a known name. Did you mean 'shm_size'?",
            id="a misspelled job variable",
        ),
        pytest.param(
            "p.yaml",
            f"{POLICY}---\n{POLICY}",
            "a policy must be the only document",
            id="two policies",
        ),
        pytest.param("p.yaml", "", "is not a policy, a prefect.yaml, ", id="an empty file"),
        pytest.param("p.yaml", "- 1\n", "it does not contain a mapping", id="a list"),
        pytest.param(
            "p.yaml", "services: {}\n", "its top-level keys are services", id="another file"
        ),
        pytest.param(
            "p.json",
            json.dumps({"variables": {"properties": {}}, "job_configuration": {"job_manifest": 3}}),
            "job_configuration.job_manifest: is not a Job",
            id="a template without a Job",
        ),
        pytest.param(
            "p.json",
            json.dumps(
                {
                    "variables": {"properties": {}},
                    "job_configuration": {"job_manifest": {"spec": {"template": [1]}}},
                }
            ),
            "does not match the structure of a Job",
            id="a template of another shape",
        ),
    ],
)
def test_bad_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, want: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert main(["check", str(path)]) == 1
    said = capsys.readouterr()
    assert want in said.out
    assert "\x1b" not in said.out
    assert said.err == ""


@pytest.mark.parametrize(
    ("gpu_type", "want"),
    [
        pytest.param(
            "A100", "'a100' has no price and is not in the catalog. Did you mean", id="part"
        ),
        pytest.param("[t4, h10]", "'h10' has no price and is not in the catalog", id="in a list"),
        pytest.param("house-gpu", None, id="one of the pool's own"),
        pytest.param("L4", None, id="capitals"),
        pytest.param("'{{ $GPU_TYPE }}'", None, id="a template"),
    ],
)
def test_a_gpu_type_of_a_deployment_that_no_catalog_knows_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], gpu_type: str, want: str | None
) -> None:
    path = tmp_path / "prefect.yaml"
    path.write_text(PROJECT.replace("job_variables: {", f"job_variables: {{gpu_type: {gpu_type}, "))
    assert main(["check", str(path)]) == 0
    said = capsys.readouterr().out
    if want is None:
        assert "misspelt-gpu-type" not in said
    else:
        assert "warning misspelt-gpu-type at line" in said
        assert f"work_pool.job_variables.gpu_type: {want}" in said


def test_the_policy_says_which_cluster_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Next to the manifests, in a ConfigMap among them, or named: the lint follows it."""
    (tmp_path / "pod.yaml").write_text(MANIFEST.replace("[ALL]", "[]"))
    assert main(["check", str(tmp_path)]) == 1
    template = "version: 1\nkubernetes: {pod_security: template}\n"
    policy = tmp_path / "policy.yaml"
    policy.write_text(template)
    assert main(["check", str(tmp_path)]) == 0
    policy.write_text(POLICY)
    other = tmp_path / "other.txt"
    other.write_text(template)
    assert main(["check", str(tmp_path), "--policy", str(other)]) == 0
    (tmp_path / "policy.yaml").write_text(
        CONFIG_MAP.replace("kubernets: {}", "kubernetes: {pod_security: template}")
    )
    assert main(["check", str(tmp_path)]) == 0
    assert "security-capabilities" in capsys.readouterr().out.split("2 files")[0]


def test_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is none of ours, hidden, or a template of a chart is passed over there."""
    for name, text in {
        "a/policy.yaml": POLICY,
        "a/compose.yaml": "services: {}",
        "a/notes.txt": "[",
        ".git/x.yaml": "[",
        "chart/Chart.yaml": "name: x\n",
        "chart/templates/x.yaml": "{{ if }}",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert main(["check", str(tmp_path)]) == 0
    want = f"{tmp_path}/a/policy.yaml: policy: no issues found\n1 file: 0 errors, 0 warnings\n"
    assert capsys.readouterr().out == want


@pytest.mark.parametrize(
    ("content", "want"),
    [
        pytest.param(None, "does not exist. Name a readable file", id="none"),
        pytest.param(b"\xff\xfe", "in UTF-8", id="no UTF-8"),
        pytest.param(b"x" * (8 * 1024**2 + 1), "is too large. Allowed: 8 MiB", id="too large"),
    ],
)
def test_files_that_cannot_be_read_end_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, want: str
) -> None:
    path = tmp_path / "policy.yaml"
    if content is not None:
        path.write_bytes(content)
    assert main(["check", str(path)]) == 2
    said = capsys.readouterr()
    assert want in said.err
    assert (said.out, said.err.count("\n")) == ("", 1)


def test_an_empty_folder_ends_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path)]) == 2
    assert "does not contain any supported files" in capsys.readouterr().err


def test_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = MANIFEST.replace("gpu: 1", "gpu: 0.5").encode()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
    assert main(["check", "-", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["errors"], document["warnings"]) == (1, 0)
    (file,) = document["files"]
    assert (file["file"], file["contents"]) == ("-", "1 Kubernetes object")
    (finding,) = file["findings"]
    assert finding["object"] == "Pod ml/train"
    assert (finding["severity"], finding["code"], finding["line"]) == ("error", "gpu-not-whole", 10)


def test_manifests_need_no_prefect() -> None:
    """`helm template | prefect-gpu check -` answers at once: what takes seconds is not imported."""
    code = (
        "import sys; from gpu_core.cli.main import main; code = main(['check', '-']); "
        "sys.exit(9 if 'prefect' in sys.modules else code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=MANIFEST,
        env={**os.environ, "COLUMNS": "80"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("team", "want"),
    [
        pytest.param("Research", "Did you mean 'research'?", id="a capital"),
        pytest.param("reserch", "Did you mean 'research'?", id="a letter is missing"),
        pytest.param("research", None, id="as the policy has it"),
        pytest.param("speech", None, id="one that the policy does not have"),
    ],
)
def test_a_team_of_a_deployment_that_is_close_to_one_of_the_policy_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], team: str, want: str | None
) -> None:
    policy, path = tmp_path / "policy.yaml", tmp_path / "prefect.yaml"
    policy.write_text("version: 1\nquotas: {teams: {research: {nominal_quota: {any: 8}}}}\n")
    path.write_text(PROJECT.replace("job_variables: {", f"job_variables: {{team: {team}, "))
    assert main(["check", str(path), str(policy)]) == 0
    said = capsys.readouterr().out
    if want is None:
        assert "misspelt-team" not in said
    else:
        assert f"job_variables.team: {team!r} is not in the policy. {want}" in said


@pytest.mark.parametrize(
    ("fields", "variables", "want"),
    [
        pytest.param(
            "quotas: {unlisted: refused, teams: {research: {nominal_quota: {any: 8}}}}",
            "team: speech",
            "job_variables.team: 'speech' has no quota and quotas.unlisted is refused: "
            "its runs never start. Add quotas.teams.speech",
            id="a team that the policy refuses",
        ),
        pytest.param(
            "quotas: {unlisted: refused, teams: {research: {nominal_quota: {any: 8}}}}",
            "team: reserch",
            "its runs never start. Did you mean 'research'?",
            id="a refused team that is misspelled",
        ),
        pytest.param(
            "prices: {h100-80gb: {on-demand: 4}}",
            "gpu_type: [house, h100-80gb]",
            "gpu_type: 'house' has no price and is not in the catalog. "
            "Add prices.house if the pool has it.",
            id="a GPU type that the policy does not know",
        ),
        pytest.param(
            "virtual_gpus: {gpu_type: house, count: 2}", "gpu_type: house", None, id="virtual GPUs"
        ),
        pytest.param("prices: {house: {on-demand: 1}}", "gpu_type: house", None, id="a price"),
        pytest.param("prices: {house: {on-demand: 1}}", "gpu_type: auto", None, id="any type"),
    ],
)
def test_names_of_a_deployment_that_the_policy_lacks_are_a_warning(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    fields: str,
    variables: str,
    want: str | None,
) -> None:
    policy, path = tmp_path / "policy.yaml", tmp_path / "prefect.yaml"
    policy.write_text(f"version: 1\n{fields}\n")
    path.write_text(PROJECT.replace("job_variables: {", f"job_variables: {{{variables}, "))
    assert main(["check", str(path), str(policy)]) == 0
    said = capsys.readouterr().out
    assert want in said if want else "0 warnings" in said


def test_the_mistakes_of_deployments_are_in_the_order_of_their_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "prefect.yaml"
    variables = "gpu_type: t44\n  gpu_count: two\n  team: 5\n  deadline: tomorrow"
    path.write_text(
        "deployments:\n- name: train\n  entrypoint: gpu_core.flows.train_digits.train_digits\n"
        "  work_pool:\n    name: gpu\n    job_variables:\n"
        + "".join(f"      {line.strip()}\n" for line in variables.splitlines())
    )
    assert main(["check", str(path)]) == 1
    lines = re.findall(r"at line (\d+):", capsys.readouterr().out)
    assert lines == ["7", "8", "9", "10"]
