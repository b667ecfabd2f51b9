"""What Kubernetes Events say about attempts."""

from gpu_core.decisions.costs.usage import round_half_up
from gpu_core.decisions.model.units import format_usd
from gpu_core.worker.attempts.state import AttemptState
from gpu_core.worker.attempts.whereabouts import told


def start_note(running: AttemptState) -> str:
    """Where does the attempt start, at which price, and why there?"""
    attempt, workload = running.attempt, running.workload
    price = attempt.price_micro_usd_per_gpu_hour
    sentences = [f"Attempt {attempt.number} {told(running, 'starts')}."]
    if price is not None and attempt.gpu_count and not running.awaited_kinds:
        an_hour = format_usd(round_half_up(price * attempt.priced_gpus))
        sentences.append(f"It costs {an_hour} an hour ({attempt.capacity_type}).")
    reasons = (
        ("GPU types", workload.gpu_type_reason),
        ("Capacity", workload.capacity_reason),
        ("Zone", workload.zone_reason),
    )
    sentences += [f"{what}: {why.rstrip('.')}." for what, why in reasons if why is not None]
    return " ".join(sentences)
