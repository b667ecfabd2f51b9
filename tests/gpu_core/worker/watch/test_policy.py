"""A policy that breaks under a worker: the last good one stays, and that is said once."""

import logging

import pytest

from gpu_core.worker.watch.policy import PolicySource

GOOD = "version: 1\nlimits: {max_failures: 5}\n"
BROKEN = "version: 1\nlimits: {max_failurs: 5}\n"


@pytest.fixture
def policy(tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="prefect.gpu.policy")
    path = tmp_path / "policy.yaml"
    path.write_text(GOOD)
    return path


def test_a_broken_one_is_said_once_and_the_last_good_one_stays(policy, caplog):
    source = PolicySource(policy)
    policy.write_text(BROKEN)
    for _ in range(3):
        assert source.current().limits.max_failures == 5
    policy.write_text(BROKEN + "\n")
    assert source.current().limits.max_failures == 5

    (said,) = caplog.messages
    assert "Did you mean 'max_failures'?" in said
    assert "Did you mean 'max_failures'?" in (source.problem or "")


def test_a_good_one_again_is_said_once(policy, caplog):
    source = PolicySource(policy)
    policy.write_text(BROKEN)
    source.current()
    policy.write_text(GOOD.replace("5", "7"))
    for _ in range(3):
        assert source.current().limits.max_failures == 7

    assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"]
    assert source.problem is None


@pytest.mark.parametrize(
    ("way", "want"), [("deleted", "does not exist"), ("a folder", "cannot be read")]
)
def test_a_file_that_is_gone_changes_nothing_until_it_is_back(policy, caplog, way, want):
    source = PolicySource(policy)
    policy.unlink()
    if way == "a folder":
        policy.mkdir()
    for _ in range(2):
        assert source.current().limits.max_failures == 5
    assert want in (source.problem or "")
    if way == "a folder":
        policy.rmdir()
    policy.write_text(GOOD)
    source.current()
    assert source.problem is None
    assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"]


def test_a_file_that_is_saved_unchanged_is_not_worth_a_word(policy, caplog):
    source = PolicySource(policy)
    policy.write_text(GOOD + "\n")
    source.current()
    assert caplog.messages == []


def test_what_waiting_users_read_of_the_policy(policy):
    """Nothing of a good one."""
    assert "No policy file is configured" in (PolicySource(None).notice or "")
    source = PolicySource(policy)
    assert source.notice is None
    policy.write_text(BROKEN)
    source.current()
    assert (source.notice or "").startswith("Using the last valid policy")
    policy.write_text(GOOD)
    source.current()
    assert source.notice is None
