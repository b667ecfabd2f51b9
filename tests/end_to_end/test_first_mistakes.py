"""What people type wrong first: one sentence where they look, and nothing is lost.

The first table is what a flow run's page says, on a real server. The second names the test of each
mistake that is reported elsewhere.
"""

import ast
from pathlib import Path

import pytest

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.requests.variables.job_variables import parse_request
from tests.end_to_end.conftest import FLOWS

# A run's job variables, and what its page must say: what was given, what is allowed, the remedy.
ON_THE_PAGE = {
    "a misspelled variable": ({"gpu_cuont": 2}, "gpu_cuont is not a known name. Did you mean "
                            "'gpu_count'? Allowed: "),
    "a GPU type without its size": ({"gpu_type": "a100"}, "No a100 GPU is available in this pool. "
    "Available GPU types: a100-80gb. You can set `gpu_type` to 'a100-80gb' or 'auto', or "),
    "a misspelled GPU type": ({"gpu_type": "a100-80g"}, "You can set `gpu_type` to "
                            "'a100-80gb' or 'auto'"),
    "16 of 8 GPUs": ({"gpu_count": 16}, ("16", "8")),
    "2 of 1 nodes": ({"nodes": 2}, ("2", "1")),
    "3 hours": ({"expected_duration": "3 hours"}, "expected_duration is not a duration (got '3 "
                "hours'). Did you mean '3h'? Allowed: whole seconds, or text such as "),
    "a negative duration": ({"max_duration": "-5m"}, "max_duration is not a duration (got '-5m')"),
    "an absurd duration": ({"max_duration": "99999d"}, "max_duration is out of range (got "
                           "'99999d'). Allowed: 0 seconds to 3650 days"),
    "a negative budget": ({"budget_usd": -5}, "budget_usd pays for nothing (got -5). Allowed: "
                          "USD, over 0, such as 12.50"),
    "a deadline that is over": ({"deadline": "2020-01-01T00:00Z"}, "deadline must be later than "
                                "the run's submission (got '2020-01-01T00:00:00+00:00'). "
                                "Allowed: "),
    "a misspelled priority": ({"gpu_priority": "hihg"}, "gpu_priority is not a queue of the policy "
                            "(got 'hihg'). Did you mean 'high'? Allowed: critical, high, low"),
}  # fmt: skip


def test_each_mistake_is_on_its_runs_page_and_the_others_go_on(pool, journal):
    """The wrong runs fail before anything starts, and a run behind them completes."""
    deployment = pool.deploy(f"{FLOWS}:do_nothing", **journal.variables(seconds=0))
    runs = {
        mistake: pool.submit(deployment, mistake, **variables)
        for mistake, (variables, _) in ON_THE_PAGE.items()
    }
    # The form of the pool knows this one: Prefect's server refuses the submission.
    with pytest.raises(AssertionError, match=r"'gpu_count'. Failure reason: 'two' is not"):
        pool.submit(deployment, "a number in words", gpu_count="two")
    good = pool.submit(deployment, "good", gpu_count=1)

    pool.start_worker()
    pool.wait_until(good, "Completed", timeout_s=120)
    for mistake, run in runs.items():
        pool.wait_until(run, "Failed")
        said = pool.message(run)
        _, want = ON_THE_PAGE[mistake]
        for part in (want,) if isinstance(want, str) else want:
            assert part in said, mistake
        assert said.count("\n") == 0, said
        assert pool.attempts_of([run]) == {run: ()}, f"{mistake} held GPUs"


def test_a_number_in_words_is_refused_with_its_range():
    """By the worker, for a pool whose form was edited."""
    with pytest.raises(InvalidInput, match=r"got 'two'.. Allowed: a whole number from 0 to 64"):
        parse_request({"gpu_count": "two"}, ())


# Where the others are reported, and the test of each.
TOLD_ELSEWHERE = {
    "S3 without credentials, an unwritable checkpoint folder, a flow that cannot be imported": (
        "tests/end_to_end/test_endings.py",
        "test_what_fails_alike_each_time_is_tried_once_and_says_what_helps",
    ),
    "a flow that raises": (
        "tests/end_to_end/test_endings.py",
        "test_a_run_that_keeps_failing_is_tried_a_bounded_number_of_times",
    ),
    "an unknown queue": (
        "tests/end_to_end/test_admission.py",
        "test_a_run_in_an_unknown_queue_is_held_and_says_so",
    ),
    "a policy that is missing, a worker without one": (
        "tests/gpu_core/worker/startup/test_checks.py",
        "test_a_missing_file_of_a_setting_is_refused",
    ),
    "a policy with eight mistakes": (
        "tests/gpu_core/decisions/policy/test_policy.py",
        "test_eight_mistakes_are_eight_lines",
    ),
    "a policy that breaks under a worker, a paused pool": (
        "tests/end_to_end/test_queue.py",
        "test_a_paused_pool_and_a_broken_policy_are_said_and_nothing_is_lost",
    ),
    "a worker of type process on the pool": (
        "tests/end_to_end/test_queue.py",
        "test_a_worker_of_another_type_is_named_with_what_it_started",
    ),
    "a misspelled pool, another worker type, a malformed API address for a worker": (
        "tests/end_to_end/test_start_checks.py",
        "test_each_mistake_is_said_in_one_go_and_changes_nothing",
    ),
    "an API that is not there, at a wrong port or malformed, for a command": (
        "tests/gpu_core/cli/shared/test_prefect_api.py",
        "test_nothing_listens_at_the_port",
    ),
    "an API's address in all its forms": (
        "tests/gpu_core/decisions/checks/prefect/test_api_address.py",
        "test_what_is_no_address",
    ),
    "a server that is gone in the middle of a command": (
        "tests/gpu_core/cli/shared/test_prefect_api.py",
        "test_what_is_no_prefect",
    ),
    "a server that is gone in the middle of runs": (
        "tests/end_to_end/test_outages.py",
        "test_what_the_server_s_absence_ended_is_charged_to_no_run",
    ),
    "two workers": (
        "tests/end_to_end/test_several_machines.py",
        "test_workers_of_two_machines_start_no_run_twice",
    ),
    "Python 3.10": ("tests/layout/test_python_version.py", "test_an_older_python_is_refused"),
    "a deployment without a pool": (
        "tests/gpu_core/cli/project/test_file.py",
        "test_what_is_wrong_is_named",
    ),
    "a misspelled key in prefect.yaml": (
        "tests/end_to_end/test_setup.py",
        "test_a_wrong_project_changes_nothing_and_says_all_that_is_wrong",
    ),
    "setup in a folder of one's own": (
        "tests/end_to_end/test_setup.py",
        "test_a_folder_of_ones_own_gets_everything_and_a_dry_run_changes_nothing",
    ),
}


@pytest.mark.parametrize("mistake", TOLD_ELSEWHERE)
def test_the_table_names_tests_that_there_are(mistake):
    file, name = TOLD_ELSEWHERE[mistake]
    body = ast.parse(Path(file).read_text()).body
    assert name in {each.name for each in body if isinstance(each, ast.FunctionDef)}
