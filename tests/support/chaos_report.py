"""What a story of chaos was like, for people."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpu_core.decisions.model.attempts import Attempt
from tests.support.faults import Deed, Kind
from tests.support.run_journal import Life, resumptions
from tests.support.sight import Sight

# Of these it matters how they struck; of the others only that they did.
_TELLING = frozenset(
    {
        Kind.WORKER_KILLED,
        Kind.KUBELET_STOPPED,
        Kind.NODE_DRAINED,
        Kind.NODE_PARTED,
        Kind.NODE_SWITCHED_OFF,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """All that was noted.

    Attributes:
        ends: The name of each run's state in Prefect.
        saving: The runs that keep checkpoints.
        gpus: How many the cluster has.
        elsewhere: How often another scheduler chose another node than the worker.
        left: How many objects of each kind were left in the cluster.
        violations: What must not have been.
    """

    seed: int
    took_s: float
    deeds: Sequence[Deed]
    ends: Mapping[str, str]
    attempts: Mapping[str, Sequence[Attempt]]
    lives: Sequence[Life]
    saving: Collection[str]
    sight: Sight
    gpus: int
    elsewhere: int = 0
    left: Mapping[str, int] = field(default_factory=dict)
    violations: Sequence[str]


def report(story: Story) -> str:
    """Faults by kind, runs and attempts by end, resumptions, and what must not have been."""
    struck = [deed for deed in story.deeds if deed.has_struck]
    ends = Counter(str(a.end_reason) for of_run in story.attempts.values() for a in of_run)
    resumed, began_anew = _resumptions(story)
    return "\n".join(
        [
            f"chaos, seed {story.seed}, {story.took_s:.0f} s",
            f"  faults       {len(struck)} of {len(story.deeds)} struck",
            *_faults(story.deeds),
            f"  runs         {_counted(story.ends.values())}",
            f"  attempts     {sum(ends.values())}: {_counted(ends.elements())}",
            f"  processes    {len(story.lives)}",
            f"  resumptions  {resumed} from a checkpoint, {began_anew} of runs that keep none",
            f"  GPUs         at most {story.sight.most_gpus} of {story.gpus} at a time, "
            f"in {story.sight.looks} looks",
            f"  running      at most {story.sight.most_running} pods at a time",
            f"  placed       {story.elsewhere} elsewhere than planned",
            f"  left         {', '.join(f'{n} {kind}' for kind, n in sorted(story.left.items()))}",
            f"  violations   {len(story.violations)}",
            *(f"    {violation}" for violation in story.violations),
        ]
    )


def _faults(deeds: Iterable[Deed]) -> Iterator[str]:
    by_kind: dict[Kind, list[Deed]] = {}
    for deed in deeds:
        by_kind.setdefault(deed.kind, []).append(deed)
    for kind, of_kind in sorted(by_kind.items()):
        struck = [deed for deed in of_kind if deed.has_struck]
        how = f": {', '.join(sorted(deed.what for deed in struck))}" if kind in _TELLING else ""
        yield f"    {kind:22}{len(struck)} of {len(of_kind)}{how}"


def _resumptions(story: Story) -> tuple[int, int]:
    of_saving = [later.run in story.saving for _, later in resumptions(story.lives)]
    return sum(of_saving), len(of_saving) - sum(of_saving)


def _counted(names: Iterable[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in Counter(names).most_common())
