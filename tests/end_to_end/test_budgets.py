"""Budgets of teams warn, hold and stop with a checkpoint, and a webhook hears of each."""

import json
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from uuid import uuid4

import pytest
from prefect.blocks.notifications import CustomWebhookNotificationBlock
from prefect.settings import PREFECT_API_URL, temporary_settings

from gpu_core.decisions.model.attempts import EndReason
from tests.end_to_end.conftest import FLOWS
from tests.support.prefect_stack import ENGINE
from tests.support.waiting import wait_for

DOLLAR_A_SECOND = """
version: 1
prices: {a100-80gb: {on-demand: 3600}}
virtual_gpus: {gpu_type: a100-80gb, count: 4}
preemption: {grace_period: 20s, min_runtime: 0s}
checkpoints: {interval: 1s}
budgets:
  - {name: all, scope: pool, period: month, usd: 1, mode: soft, notify: [custom-webhook/BLOCK]}
  - {name: speech, scope: team, of: speech, period: month, usd: 3, notify: [custom-webhook/BLOCK]}
  - name: vision
    scope: team
    of: vision
    period: month
    usd: LIMIT
    mode: stop
    queues: {critical: soft}
    notify: [custom-webhook/BLOCK]
"""


@pytest.fixture
def webhook() -> Iterator[tuple[str, dict[str, str]]]:
    """A server on the loopback interface: its address, and the last message by subject."""
    got: dict[str, str] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            got[message["subject"]] = message["body"]
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing on stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/", got
    server.shutdown()
    server.server_close()
    thread.join()


def save_block(server, name, url):
    """A notification block on the server, as people make one in the UI."""
    with temporary_settings({PREFECT_API_URL: server.api_url}):
        CustomWebhookNotificationBlock(
            name=name,
            url=url,
            json_data={"subject": "{{subject}}", "body": "{{body}}"},
            allow_private_urls=True,
        ).save(name)


def test_budgets_warn_hold_and_stop_with_a_checkpoint(server, new_pool, tmp_path, webhook):
    """A minute until the next poll and 20 s of grace cost $80 a GPU, so that of $164 two runs
    may use $4 before one of them must stop; the critical one continues."""
    url, got = webhook
    block = f"budgets-{uuid4().hex[:6]}"
    save_block(server, block, url)
    policy = DOLLAR_A_SECOND.replace("BLOCK", block)
    pool = new_pool(policy.replace("LIMIT", "10000"))
    folders = {name: tmp_path / name for name in ("vision", "critical", "speech", "held")}
    runs = {}
    for name, folder in folders.items():
        folder.mkdir()
        queue = "critical" if name == "critical" else "medium"
        team = {"critical": "vision", "held": "speech"}.get(name, name)
        deployment = pool.deploy(
            f"{FLOWS}:count_until_released", queue, team=team, expected_duration="2s", **ENGINE
        )
        runs[name] = pool.submit(deployment, name, {"folder": str(folder)})
    pool.start_worker()

    pool.wait_until(runs["held"], "BudgetExceeded")
    assert "Over budget 'speech': " in pool.message(runs["held"])
    wait_for((folders["vision"] / "began-1").exists, "the run of vision works")
    pool.policy_path.write_text(policy.replace("LIMIT", "164"))
    wait_for(lambda: stopped(pool, runs["vision"]), "the run of vision has stopped")
    (attempt,) = pool.attempts(runs["vision"])
    assert attempt.end_reason is EndReason.BUDGET_HELD
    assert attempt.checkpoint is not None
    assert "of budget vision has been used" in attempt.end_message
    pool.wait_until(runs["vision"], "BudgetExceeded")
    assert pool.state(runs["critical"]) == pool.state(runs["speech"]) == "Running"

    for name, want in (
        ("all", "Runs can still start because the budget is soft."),
        ("speech", "New runs in this budget are not started until the period ends."),
        ("vision", "Runs in queue critical are not affected."),
    ):
        wait_for(partial(heard, got, name, want), f"the webhook gets: {want}")
    for folder in folders.values():
        (folder / "release").touch()


def heard(got, budget, want):
    """Did a message about this budget end so?"""
    about = [body for subject, body in got.items() if subject.startswith(f"Budget {budget}: ")]
    return any(body.endswith(want) for body in about)


def stopped(pool, run):
    """Is its first attempt over?"""
    attempts = pool.attempts(run)
    return bool(attempts) and attempts[0].released_at is not None
