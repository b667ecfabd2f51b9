"""The runs of the stories of chaos: which there are, and what each is."""

import random
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.chaos import journal_of
from tests.cluster.pools import JOURNALED_RUN
from tests.support.prefect_stack import Pool

FLOW = "tests/cluster/flows.py:journaled"
CONTAINER = "tests/end_to_end/flows.py:do_nothing"
GANG_NODES = 2
# How long a container works on after SIGTERM.
_ENDING_S = (0, 1, 3)
_MAX_FAILURES = 5
# Long enough to be seen, and for a fault to hit many of them.
_SIMULATED_S = (20, 90)
# In each twelve: the start of a flow alone is seconds of computing.
_KINDS = (
    *("container", "flow", "queued", "container", "gang", "container"),
    *("container", "flow gang", "queued", "container", "queued", "container"),
)


@dataclass
class Runs:
    """The flow runs of a story.

    Attributes:
        ids: Those that note what happens to them, in the order of their submission.
        saving: Those that keep checkpoints.
        gangs: Those of which every node has to do its work.
        queued: Those that another scheduler places.
        simulated: Those whose containers run nothing: of them the cluster alone has a record.
    """

    ids: list[str] = field(default_factory=list)
    saving: set[str] = field(default_factory=set)
    gangs: set[str] = field(default_factory=set)
    queued: set[str] = field(default_factory=set)
    simulated: list[str] = field(default_factory=list)

    @property
    def all(self) -> list[str]:
        """Those with processes and those without."""
        return [*self.ids, *self.simulated]


def submit(pool: Pool, queued: Pool, count: int, draws: random.Random) -> Runs:
    """Put so many runs in line.

    Args:
        pool: Places its runs itself.
        queued: Its runs are placed by another scheduler.
        count: How many.
        draws: What of a run's size and habits is left to chance.
    """
    deployed = {
        (of.name, entrypoint): of.deploy(entrypoint, max_failures=_MAX_FAILURES)
        for of, entrypoint in ((pool, FLOW), (pool, CONTAINER), (queued, CONTAINER))
    }
    runs = Runs()
    for number in range(count):
        kind = _KINDS[number % len(_KINDS)]
        of = queued if kind == "queued" else pool
        steps, saves = draws.randint(4, 24), draws.random() < 0.5
        folder = journal_of(of).parent
        entrypoint, parameters, variables = CONTAINER, None, {}
        if kind in ("container", "gang", "queued"):
            variables = {"container_command": command_of(folder, steps, saves, draws)}
        variables["gpu_count"] = draws.choice((1, 2, 4)) if kind in ("container", "queued") else 1
        if kind in ("flow", "flow gang"):
            saves, entrypoint = True, FLOW
            parameters = {"folder": str(folder), "steps": steps}
        if kind == "gang":
            # Without a framework the first node would run the flow instead.
            variables |= {"nodes": GANG_NODES, "framework": "torchrun"}
        if kind == "flow gang":
            others = command_of(folder, steps, saves, draws)
            variables |= {"nodes": GANG_NODES, "container_command": others}
        deployment = deployed[of.name, entrypoint]
        run = of.submit(deployment, f"run-{number}-{kind}", parameters, **variables)
        runs.ids.append(run)
        runs.saving |= {run} if saves else set()
        runs.gangs |= {run} if kind == "gang" else set()
        runs.queued |= {run} if kind == "queued" else set()
    return runs


def submit_simulated(pool: Pool, count: int, draws: random.Random) -> list[str]:
    """Put so many container jobs on simulated nodes in line, one of ten of them a gang.

    Returns:
        Their ids.
    """
    deployment = pool.deploy(CONTAINER, container_command="train", max_failures=_MAX_FAILURES)
    runs = []
    for number in range(count):
        variables: dict[str, object] = {"run_for_s": str(draws.randint(*_SIMULATED_S))}
        if number % 10 == 0:
            variables |= {"nodes": GANG_NODES, "framework": "torchrun"}
        runs.append(pool.submit(deployment, f"simulated-{number}", **variables))
    return runs


def command_of(folder: Path, steps: int, saves: bool, draws: random.Random) -> str:
    """The command of a container that notes what happens to it in this folder."""
    mode, ending_s = "keeps" if saves else "forgets", draws.choice(_ENDING_S)
    return f"/bin/sh {JOURNALED_RUN} {folder} {steps} {mode} {ending_s}"
