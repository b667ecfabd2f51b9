"""Where an attempt is, in the words of its run's states and log."""

from gpu_core.worker.attempts.state import AttemptState


def told(running: AttemptState, verb: str) -> str:
    """What does it hold, or wait for?

    Args:
        running: It has its GPUs.
        verb: What it does there: "began", "starts".
    """
    attempt = running.attempt
    if attempt.gpu_type is None:
        return f"{verb} on no GPU: it asked for none"
    gpus = f"{attempt.gpu_count} × {attempt.gpu_type}"
    kinds = ", ".join(running.awaited_kinds)
    if kinds:
        return f"waits for a new node ({kinds}) with {gpus}, {attempt.capacity_type}"
    nodes = ", ".join(share.node for share in attempt.held)
    return f"{verb} on {gpus} of {nodes}: {', '.join(attempt.gpu_ids)}"
