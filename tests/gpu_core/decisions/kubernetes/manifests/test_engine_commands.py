"""Which command lines start a flow's engine, and which run a bundle."""

import shlex
import time

import pytest
from prefect.bundles import convert_step_to_command

from gpu_core.decisions.kubernetes.manifests.engine_commands import is_bundle, starts_engine

KEY = "e528eea0-97dc-444c-a33f-16e28f0d3ca8"
# What `prefect work-pool storage configure s3` sets, and a step that a team wrote.
S3_STEP = {
    "prefect_aws.experimental.bundles.execute": {
        "requires": "prefect-aws>=0.5.5",
        "bucket": "bundles",
        "aws_credentials_block_name": "aws",
    }
}
OWN_STEP = {"team.fetch_and_run": {"launcher": ["python"], "folder": "/bundles"}}
BUNDLE = shlex.join(convert_step_to_command(S3_STEP, KEY))
OWN_BUNDLE = shlex.join(convert_step_to_command(OWN_STEP, KEY))


@pytest.mark.parametrize(
    "command",
    [
        "prefect flow-run execute",
        "prefect flow-runs execute",
        f"prefect flow-run execute {KEY}",
        f"prefect flow-run execute --id {KEY}",
        "prefect --profile gpus flow-run execute",
        "prefect --profile=gpus flow-run execute",
        "prefect -p gpus --no-prompt flow-run execute",
        "prefect flow-run --no-prompt execute",
        "/opt/venv/bin/prefect flow-run execute",
        "python -m prefect flow-run execute",
        "python3.12 -u -X dev -m prefect --profile gpus flow-run execute",
        "python -mprefect flow-run execute",
        "python -m prefect.engine",
        "python -m prefect.flow_engine flows/train.py:train",
        "uv run prefect flow-run execute",
        "uv run --with prefect prefect flow-run execute",
        "uv run --with 'prefect>=3.4,<4' --with torch prefect --profile x flow-run execute",
        "uv run --python 3.12 --with 'git+https://example.org/lib@v1' prefect flow-run execute",
        "uv run --package pipeline -- prefect flow-run execute",
        "uvx --from 'prefect >= 3.4' prefect flow-run execute",
        "pixi run --frozen -e gpu prefect flow-run execute",
        "conda run -n train --no-capture-output prefect flow-run execute",
        "poetry run prefect flow-run execute",
        "opentelemetry-instrument --service_name train prefect flow-run execute",
        "env OMP_NUM_THREADS=8 prefect flow-run execute",
        "nsys profile -o /out/run python -m prefect flow-run execute",
        "sh -c 'cd /app && exec prefect flow-run execute'",
        "bash -lc 'source activate x; prefect --profile x flow-run execute; echo \"it ended\"'",
        "sh -c '(prefect flow-run execute)'",
        "sh -c 'prefect flow-run execute # it'\"'\"'s the engine'",
        "/opt/start.sh prefect flow-run execute",
        "prefect bundle execute",
        BUNDLE,
        "python -m prefect.bundles.execute --key /b/1",
        f"python -m prefect._experimental.bundles.execute --key {KEY}",
    ],
)
def test_what_starts_an_engine_is_recognized(command):
    assert starts_engine(shlex.split(command), has_deployment=True)


@pytest.mark.parametrize(
    "command",
    [
        "/opt/start.sh",
        "nvidia-smi",
        "python flow.py",
        "torchrun train.py",
        "uv run --with prefect python train.py",
        "uv run --with prefect mytool flow-run execute",
        "prefect version",
        "prefect worker start --pool gpu",
        "prefect flow-run ls",
        f"prefect flow-run cancel {KEY}",
        "prefect --profile execute flow-run ls",
        "prefect deployment run train/gpu",
        "python -m prefect version",
        "sh -c 'prefect --version; flow-run execute'",
        "sh -c 'prefect --version && flow-run execute'",
        "myprefect flow-run execute",
        "python -m train --key 17",
        f"python -m mytool --key {KEY}",
        f"python -m mytool --shard 3 --key {KEY}",
        "",
        "prefect",
        "prefect --profile",
    ],
)
def test_what_starts_no_engine_is_no_flow(command):
    assert not starts_engine(shlex.split(command), has_deployment=True)


@pytest.mark.parametrize(
    ("command", "has_deployment", "want"),
    [
        pytest.param(BUNDLE, False, True, id="in S3"),
        pytest.param(BUNDLE, True, True, id="in S3, in a deployment"),
        pytest.param(OWN_BUNDLE, False, True, id="of an own step"),
        pytest.param(OWN_BUNDLE, True, False, id="a tool that a deployment gives a key"),
        pytest.param(f"python mytool.py --key {KEY}", False, False, id="no module"),
        pytest.param(f"python -m mytool --key {KEY} -v", False, False, id="not as Prefect ends"),
        pytest.param("uv run prefect flow-run execute", False, False, id="an engine"),
    ],
)
def test_a_bundle_differs_from_a_tool_and_from_an_engine(command, has_deployment, want):
    assert is_bundle(shlex.split(command), has_deployment=has_deployment) is want


def test_an_own_step_of_a_submitted_run_starts_its_flow():
    assert starts_engine(shlex.split(OWN_BUNDLE), has_deployment=False)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("sh", "-c", "x " * 500_000), id="a long script"),
        pytest.param(("prefect", "-a") * 200_000, id="options without end"),
        pytest.param(("sh", "-c", "prefect -a " * 100_000), id="options without end in a script"),
        pytest.param(("sh", "-c", '"' * 1_000_001 + " '"), id="quotation marks"),
        pytest.param(("sh", "-c", "\"'" * 500_000 + " "), id="mixed quotation marks"),
        pytest.param(("a b",) * 200_000, id="many scripts"),
    ],
)
def test_a_long_command_is_read_in_no_time(command):
    """It takes .1 s; what looked at each word from each other one took minutes."""
    began_s = time.process_time()
    assert not starts_engine(command, has_deployment=True)
    assert time.process_time() - began_s < 5
