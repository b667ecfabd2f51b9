"""How rounds of two workers are compared."""

from benchmarks.cluster_starts import CONTENDERS, OURS, Contender, Line, ratios


def line(contender: Contender, number: int, starts_per_s: float) -> Line:
    """What was measured, in which only the rate matters."""
    return Line(
        worker=contender.worker,
        poll_s=contender.poll_s,
        round=number,
        runs=2,
        starts_per_s=starts_per_s,
        first_job_after_s=0.0,
        all_after_s=0.0,
        worker_cpu_s_per_start=0.0,
        server_cpu_s_per_start=0.0,
        prefect_requests_per_start=0.0,
        kubernetes_requests_per_start=0.0,
    )


def test_a_round_is_compared_with_itself_and_each_way_of_polling_alone() -> None:
    """The second round was on a machine that had half the time."""
    _, stock, polling = CONTENDERS
    lines = [
        *(line(OURS, 1, 12.0), line(stock, 1, 8.0), line(polling, 1, 6.0)),
        *(line(polling, 2, 8.0), line(OURS, 2, 4.0), line(stock, 2, 5.0)),
    ]
    assert ratios(lines, stock) == [1.5, 0.8]
    assert ratios(lines, polling) == [2.0, 0.5]
