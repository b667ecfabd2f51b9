"""One request for many askers: who shares an answer, and whose error it is."""

import anyio
import pytest

from gpu_core.worker.prefect.batch_loader import BatchLoader


class Source:
    """Answers with the double, when it is let to."""

    def __init__(self):
        self.asked = []
        self.may_answer = anyio.Event()

    async def ask(self, keys):
        self.asked.append(keys)
        await self.may_answer.wait()
        if "bad" in keys:
            raise RuntimeError("refused")
        return {key: 2 * key for key in keys if isinstance(key, int)}


def answers_to(*keys):
    """What each of them gets, who all ask while the first one's request is under way."""
    source, reported = Source(), {}

    async def ask(together, key):
        try:
            reported[key] = await together.of(key)
        except RuntimeError as error:
            reported[key] = str(error)

    async def story():
        together = BatchLoader(source.ask)
        async with anyio.create_task_group() as askers:
            for key in keys:
                askers.start_soon(ask, together, key)
                await anyio.wait_all_tasks_blocked()
            source.may_answer.set()

    anyio.run(story)
    return source.asked, reported


def test_who_asks_while_a_request_is_under_way_shares_the_next_one():
    asked, reported = answers_to(1, 2, 3, 4)
    assert asked == [(1,), (2, 3, 4)]
    assert reported == {1: 2, 2: 4, 3: 6, 4: 8}


def test_no_answer_is_older_than_its_question():
    """The one for the first asker is under way when the second one asks for the same."""
    asked, _ = answers_to(1, 1)
    assert asked == [(1,), (1,)]


def test_what_has_no_answer_is_none():
    _, reported = answers_to("unknown")
    assert reported == {"unknown": None}


def test_an_error_reaches_all_that_asked_together_and_no_others():
    asked, reported = answers_to(1, "bad", 3)
    assert asked == [(1,), ("bad", 3)]
    assert reported == {1: 2, "bad": "refused", 3: "refused"}


def test_who_gives_up_leaves_the_request_to_the_others():
    source = Source()

    async def story():
        together, reported = BatchLoader(source.ask), []

        async def ask(key):
            reported.append(await together.of(key))

        async with anyio.create_task_group() as askers, anyio.create_task_group() as leaving:
            leaving.start_soon(ask, 1)
            await anyio.wait_all_tasks_blocked()
            askers.start_soon(ask, 2)
            await anyio.wait_all_tasks_blocked()
            leaving.cancel_scope.cancel()
            source.may_answer.set()
        return reported

    assert anyio.run(story) == [4]
    assert source.asked == [(1,), (2,)]


@pytest.mark.parametrize("times", [1, 3])
def test_it_can_be_asked_again(times):
    source = Source()
    source.may_answer.set()

    async def story():
        together = BatchLoader(source.ask)
        return [await together.of(1) for _ in range(times)]

    assert anyio.run(story) == [2] * times
    assert len(source.asked) == times
