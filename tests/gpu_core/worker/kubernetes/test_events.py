"""How often the events of pods that do not run yet are asked for."""

from types import SimpleNamespace

import anyio
import pytest

from gpu_core.worker.kubernetes.events import PodEvents
from tests.gpu_core.accounting_builders import make_attempt, make_run
from tests.gpu_core.worker.kubernetes.objects import make_job

ATTEMPTS = [
    SimpleNamespace(attempt=make_attempt(f"run-{n}"), record=make_run(f"run-{n}"))
    for n in range(100)
]
VIEW = SimpleNamespace(
    pods_of=lambda _: [],
    jobs_of=lambda _: [make_job()],
    custom_jobs=SimpleNamespace(of=lambda _: None),
)


class Api:
    def __init__(self):
        self.asked = 0

    async def get(self, _path, _query):
        self.asked += 1
        return {"items": []}


@pytest.mark.parametrize(
    ("looks_at_s", "want"),
    [
        pytest.param([100, 101], 0, id="they have only begun to start"),
        pytest.param([100, 110], 10, id="they take their time"),
        pytest.param([100, 110, 110.1, 110.2], 10, id="cycles follow each other"),
        pytest.param([100, 110, 111, 112], 18, id="a second later"),
        pytest.param([100, 110, 150], 20, id="much later"),
    ],
)
def test_a_hundred_that_start_together_are_not_all_asked_for_at_once(monkeypatch, looks_at_s, want):
    api, clock_s = Api(), iter(looks_at_s)
    events = PodEvents(api, VIEW)
    monkeypatch.setattr(anyio, "current_time", lambda: next(clock_s))

    async def story():
        for _ in looks_at_s:
            await events.look(ATTEMPTS)

    anyio.run(story)
    assert api.asked == want
