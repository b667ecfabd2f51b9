"""Alerts reach a webhook once, also over a restart, and again after a block that failed."""

import json
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import anyio
import anyio.lowlevel
import pytest
from prefect.blocks.notifications import CustomWebhookNotificationBlock

from gpu_core.adapters.ledger import Ledger
from gpu_core.decisions.model.cluster import PastUsage
from gpu_core.decisions.policy.policy import parse_policy
from gpu_core.worker.watch import budget_alerts
from gpu_core.worker.watch.budget_alerts import BudgetAlerts

NOW = datetime(2026, 4, 16, tzinfo=UTC)
POLICY = parse_policy(
    {
        "version": 1,
        "budgets": [
            {
                "name": "pool",
                "scope": "pool",
                "period": "month",
                "usd": 100,
                "mode": "soft",
                "notify": ["custom-webhook/gpu-budgets"],
            }
        ],
    }
)


@pytest.fixture
def webhook() -> Iterator[tuple[str, list[dict[str, str]], list[int]]]:
    """A server on the loopback interface: its address, what it got, and the answers it gives."""
    got: list[dict[str, str]] = []
    answers: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = answers.pop(0) if answers else 200
            if status == 200:
                got.append(json.loads(body))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing on stderr."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/", got, answers
    server.shutdown()
    server.server_close()
    thread.join()


def loader(url: str) -> Callable[[str], Awaitable[CustomWebhookNotificationBlock]]:
    """Loads a block that posts to this address."""

    async def load(name: str) -> CustomWebhookNotificationBlock:
        assert name == "custom-webhook/gpu-budgets"
        return CustomWebhookNotificationBlock(
            name="gpu-budgets",
            url=url,
            json_data={"subject": "{{subject}}", "body": "{{body}}"},
            allow_private_urls=True,
        )

    return load


def spent(usd: float) -> PastUsage:
    return PastUsage(micro_usd_by_budget={"pool": round(usd * 1_000_000)})


def check(ledger: Ledger, url: str, *amounts_usd: float) -> None:
    """A worker that starts, sees these amounts one after the other, and ends."""

    async def worker() -> None:
        for usd in amounts_usd:
            async with anyio.create_task_group() as tasks:
                alerts = BudgetAlerts(ledger, "gpus", tasks, loader(url))
                await alerts.check(POLICY, spent(usd), NOW)
                await alerts.check(POLICY, spent(usd), NOW)  # within a minute: nothing

    anyio.run(worker)


def test_workers_of_several_machines_report_a_mark_once(
    ledger_url: str, webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each machine of a process pool has a worker that acts; they share the ledger."""
    url, got, _ = webhook
    monkeypatch.setattr(budget_alerts, "_INTERVAL_S", 0.0)

    async def two_workers() -> None:
        async with anyio.create_task_group() as tasks:
            workers = [BudgetAlerts(ledger, "gpus", tasks, loader(url)) for _ in range(2)]
            for worker in workers:
                await worker.check(POLICY, spent(10), NOW)
            for worker in workers:
                await worker.check(POLICY, spent(85), NOW)
                while len(ledger.budget_alerts("gpus")) < 1:
                    await anyio.lowlevel.checkpoint()

    with Ledger.open(ledger_url) as ledger:
        anyio.run(two_workers)
    assert [message["subject"] for message in got] == ["Budget pool: 85% used"]


def test_a_mark_is_reported_once_over_restarts(ledger_url: str, webhook) -> None:
    url, got, _ = webhook
    for amounts in ((10, 85), (90,), (101,), (150,)):
        with Ledger.open(ledger_url) as ledger:
            check(ledger, url, *amounts)
    assert [message["subject"] for message in got] == [
        "Budget pool: 85% used",
        "Budget pool: 101% used",
    ]
    assert "At the current rate, the usage will reach $170.00 (170%)." in got[0]["body"]
    assert got[1]["body"].endswith("Runs can still start because the budget is soft.")


def test_a_block_that_fails_is_tried_again(
    ledger_url: str, webhook, caplog: pytest.LogCaptureFixture
) -> None:
    url, got, answers = webhook
    answers.append(503)
    with Ledger.open(ledger_url) as ledger:
        check(ledger, url, 85)
        assert got == []
        check(ledger, url, 85)
    assert len(got) == 1
    assert "failed to send a notification with block custom-webhook/gpu-budgets" in caplog.text
    assert url not in caplog.text


@pytest.fixture
def ledger_url(tmp_path) -> str:
    """The address of an empty ledger."""
    return f"sqlite:///{tmp_path / 'ledger.db'}"
