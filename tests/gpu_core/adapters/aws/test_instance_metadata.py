"""What EC2's metadata service answers, and what follows when it answers nothing."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from gpu_core.adapters.aws.instance_metadata import InstanceMetadata
from gpu_core.adapters.files.run_files import Notice
from gpu_core.decisions.model.errors import InvalidInput
from tests.support.instance_metadata import FakeMetadata, metadata_server

INTERRUPTION = {"action": "terminate", "time": "2026-03-01T12:02:00Z"}
REBALANCE = {"noticeTime": "2026-03-01T11:50:00Z"}


@pytest.fixture
def metadata() -> Iterator[FakeMetadata]:
    with metadata_server() as fake:
        yield fake


def test_nothing_is_known_of_an_end(metadata: FakeMetadata) -> None:
    """The service answers 404, which is no error."""
    assert InstanceMetadata(metadata.address).notice() is None


def test_an_interruption_is_reported_with_its_time(metadata: FakeMetadata) -> None:
    """Two minutes before; the same at every poll, so that it is answered once."""
    metadata.interruption = INTERRUPTION
    service = InstanceMetadata(metadata.address)
    want_notice = Notice(
        reason="Interrupted",
        message="EC2 will terminate this instance at 2026-03-01T12:02:00Z",
        requested_at=datetime(2026, 3, 1, 12, 0, tzinfo=UTC),
        deadline_at=datetime(2026, 3, 1, 12, 2, tzinfo=UTC),
    )
    assert [service.notice(), service.notice()] == [want_notice, want_notice]


def test_a_recommendation_comes_before_the_interruption(metadata: FakeMetadata) -> None:
    """Once there is an interruption, that counts."""
    metadata.rebalance = REBALANCE
    service = InstanceMetadata(metadata.address)
    assert service.notice().reason == "RebalanceRecommended"
    assert service.notice().requested_at == datetime(2026, 3, 1, 11, 50, tzinfo=UTC)
    metadata.interruption = INTERRUPTION
    assert service.notice().reason == "Interrupted"


def test_a_token_is_asked_for_once_and_again_when_it_has_expired(metadata: FakeMetadata) -> None:
    """Version 2 of the service refuses questions without one."""
    service = InstanceMetadata(metadata.address)
    for _ in range(3):
        service.notice()
    assert metadata.tokens_given == 1
    metadata.ticket = "ticket-2"
    service.notice()
    assert metadata.tokens_given == 2


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        pytest.param(500, INTERRUPTION, id="out of order"),
        pytest.param(200, "not JSON", id="not JSON"),
        pytest.param(200, {"action": "stop"}, id="without a time"),
        pytest.param(200, {"action": "stop", "time": "2026-03-01T12:02:00"}, id="without a zone"),
        pytest.param(200, "[]", id="no object"),
    ],
)
def test_an_answer_that_is_none(metadata: FakeMetadata, status: int, answer: object) -> None:
    """It is one kind of error, whatever it was."""
    metadata.status, metadata.interruption = status, answer
    with pytest.raises(OSError, match="instance metadata service"):
        InstanceMetadata(metadata.address).notice()


def test_no_service_is_an_error_of_the_network() -> None:
    """As on every machine that is not EC2's."""
    with metadata_server() as fake:
        address = fake.address
    with pytest.raises(OSError, match="refused"):
        InstanceMetadata(address).notice()


@pytest.mark.parametrize("address", ["", "169.254.169.254", "https://169.254.169.254", "http://"])
def test_what_is_no_address(address: str) -> None:
    """The error names the field."""
    with pytest.raises(InvalidInput, match="instance_metadata_url is no address"):
        InstanceMetadata(address)
