"""The configurations of one experiment against each other: winners and the Pareto front."""

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.optimization.experiments.repeats import leaders, logarithms, pareto_front
from gpu_core.decisions.optimization.experiments.trial import Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One experiment: what was measured, and what can be said of it."""

    name: str
    trials: tuple[Trial, ...]
    cheapest: tuple[str, ...]
    """All that may be the cheapest; one alone is the winner."""
    fastest: tuple[str, ...]
    """All that may have the lowest latency."""
    front: tuple[str, ...]
    """Those that no other one dominates in cost, latency and quality."""

    @property
    def sentence(self) -> str:
        """The result, for people."""
        if len(self.trials) == 1:
            return f"Only one configuration was measured: {self.trials[0].setting}."
        cheapest = winner_sentence("lowest cost", self.cheapest)
        return f"{cheapest} {winner_sentence('lowest latency', self.fastest)}"


def compare_trials(name: str, trials: Sequence[Trial]) -> Comparison:
    """Which of these configurations is cheapest, which fastest, and which are worth a choice?

    Quality counts in the front only if all of them have it.

    Raises:
        InvalidInput: There is none, or two have the same setting.
    """
    by_setting = {str(trial.setting): trial for trial in trials}
    if len(by_setting) < len(trials) or not trials:
        raise InvalidInput(
            "trials",
            "have the same setting twice" if trials else "are missing",
            got=[str(trial.setting) for trial in trials],
            allowed="one or more, each with a setting of its own",
        )
    return Comparison(
        name=name,
        trials=tuple(trials),
        cheapest=leaders({key: logarithms(trial.usd_per_1k) for key, trial in by_setting.items()}),
        fastest=leaders({key: logarithms(trial.p99_s) for key, trial in by_setting.items()}),
        front=pareto_front({key: _objectives(trial, trials) for key, trial in by_setting.items()}),
    )


def _objectives(trial: Trial, trials: Sequence[Trial]) -> list[tuple[float, ...]]:
    """Of which less is better."""
    found = [logarithms(trial.usd_per_1k), logarithms(trial.p99_s)]
    qualities = [each.quality for each in trials]
    if trial.quality is not None and None not in qualities:
        found.append(tuple(-value for value in trial.quality))
    return found


def winner_sentence(what: str, names: Sequence[str]) -> str:
    """The sentence on the winner in, for one, `lowest cost`; several names have no winner."""
    if len(names) == 1:
        return f"{what.capitalize()}: {names[0]}."
    return (
        f"No statistically significant difference in {what.split()[-1]} between {'; '.join(names)}."
    )
