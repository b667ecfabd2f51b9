"""Runs that an operator spreads over pods, on a real API server; its part is played."""

import pytest

from tests.cluster.operators import PlayedKubeRay, ray_jobs
from tests.cluster.pools import FLOWS, POLICY, working_pool
from tests.support.waiting import wait_for

_S = 240


@pytest.fixture(scope="module")
def _ray(cluster):
    with ray_jobs(cluster):
        yield


@pytest.fixture(scope="module")
def _working(_ray, cluster, server, tmp_path_factory):
    with working_pool(cluster, server, tmp_path_factory.mktemp("operators")) as both:
        yield both


@pytest.fixture
def pool(_working):
    pool, _ = _working
    yield pool
    pool.print_logs()


@pytest.fixture
def namespace(_working):
    _, namespace = _working
    return namespace


@pytest.fixture
def kuberay(namespace):
    return PlayedKubeRay(namespace)


def ray(command, **variables):
    """The job variables of a run with Ray."""
    return {"framework": "ray", "container_command": command, **variables}


def test_a_ray_job_runs_logs_its_output_and_costs(pool, kuberay):
    deployment = pool.deploy(f"{FLOWS}:do_nothing")
    without = pool.submit(deployment, "no operator", framework="spark", container_command="job.py")
    run = pool.submit(deployment, "ray", **ray("echo hello from ray", gpu_count=2))
    job = kuberay.job_of(run)
    worker = kuberay.make_worker(job)
    kuberay.emit(job, "Running", "RUNNING")
    pool.wait_until(run, "Running", timeout_s=_S)
    kuberay.wait_for_phase(worker, "Succeeded")
    wait_for(lambda: "hello from ray" in pool.logs(run), "its output is in its log", _S)
    kuberay.emit(job, "Complete", "SUCCEEDED")
    pool.wait_until(run, "Completed", timeout_s=_S)

    (attempt,) = pool.attempts(run)
    assert attempt.end_reason == "Completed"
    assert attempt.gpu_count == 2
    assert attempt.price_micro_usd_per_gpu_hour == 1_000_000
    pool.wait_until(without, "Failed", timeout_s=_S)
    assert "the kind SparkApplication is not installed" in pool.message(without)


def test_a_cancelled_ray_job_goes_with_all_that_came_of_it(pool, kuberay, namespace):
    # The first process of a container ignores SIGTERM unless it has a handler.
    command = """exec sh -c 'trap "exit 143" TERM; sleep 600 & wait'"""
    run = pool.submit(pool.deploy(f"{FLOWS}:do_nothing"), "cancelled", **ray(command))
    job = kuberay.job_of(run)
    worker = kuberay.make_worker(job)
    kuberay.emit(job, "Running", "RUNNING")
    kuberay.wait_for_phase(worker, "Running")
    pool.wait_until(run, "Running", timeout_s=_S)
    pool.call(
        "POST",
        f"/flow_runs/{run}/set_state",
        {"state": {"type": "CANCELLING", "name": "Cancelling"}},
    )
    pool.wait_until(run, "Cancelled", timeout_s=_S)
    wait_for(lambda: pool.attempts(run)[0].released_at is not None, "its GPUs are free", _S)
    assert not kuberay.jobs_of(run)
    assert worker not in namespace.kubectl("get", "pods", "-o", "name")
    assert pool.attempts(run)[0].end_reason == "Cancelled"


def test_a_ray_job_that_fails_is_tried_again_by_the_worker_alone(pool, kuberay):
    run = pool.submit(pool.deploy(f"{FLOWS}:do_nothing"), "fails", max_failures=1, **ray("exit 3"))
    job = kuberay.job_of(run)
    kuberay.emit(job, "Failed", "FAILED", message="Job entrypoint command failed")
    pool.wait_until(run, "Failed", timeout_s=_S)
    (attempt,) = pool.attempts(run)
    assert attempt.is_charged_failure
    assert "entrypoint command failed" in pool.message(run)


def test_a_ray_job_that_is_over_goes_after_a_while_with_any_worker(new_pool, kuberay):
    """KubeRay leaves it; the worker that started it is gone by then."""
    pool = new_pool(POLICY + "  kept_after_end: 10s\n")
    pool.start_worker()
    run = pool.submit(pool.deploy(f"{FLOWS}:do_nothing"), "short", **ray("true"))
    job = kuberay.job_of(run)
    kuberay.emit(job, "Complete", "SUCCEEDED", endTime=job["metadata"]["creationTimestamp"])
    pool.wait_until(run, "Completed", timeout_s=_S)
    wait_for(lambda: pool.attempts(run)[0].released_at is not None, "it is settled", _S)
    pool.kill_worker()
    pool.start_worker()
    wait_for(lambda: not kuberay.jobs_of(run), "its RayJob is gone", _S)
    assert pool.state(run) == "Completed"
