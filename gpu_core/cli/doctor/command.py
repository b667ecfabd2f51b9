"""`prefect-gpu doctor`: checks that a pool's worker has all that it needs, in fitting versions.

Nothing is changed but one small object in the checkpoint store, which is removed again. What does
not answer fails its own check; the others continue.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from platform import python_version

from packaging.requirements import Requirement as Declared
from prefect.client.orchestration import PrefectClient

from gpu_core.adapters.files.policy_file import load_policy
from gpu_core.adapters.ledger.inspection import inspect_claim
from gpu_core.cli.doctor.cluster import ClusterQuestion, examine_cluster
from gpu_core.cli.doctor.options import DoctorOptions
from gpu_core.cli.doctor.output import as_json, as_text, redacted
from gpu_core.cli.doctor.prefect_checks import examine_prefect
from gpu_core.cli.doctor.prefect_facts import PrefectFacts, default_of, read_prefect_facts
from gpu_core.cli.doctor.services import (
    Call,
    StoreAddresses,
    machine_gpu_findings,
    read_places,
    service_calls,
)
from gpu_core.cli.setup.command import DEFAULT_POLICY
from gpu_core.cli.setup.pool import check_pool_name
from gpu_core.cli.shared.prefect_api import ask
from gpu_core.decisions.checks.doctor.finding import (
    Finding,
    failed,
    has_failed,
    ok,
    unknown,
    warning,
)
from gpu_core.decisions.checks.doctor.prefect_pool import DEFAULT_POOL
from gpu_core.decisions.checks.doctor.versions import Requirement, package_findings
from gpu_core.decisions.checks.files.policy_doubts import doubts_of_policy
from gpu_core.decisions.checks.prefect.pool_claim import PoolClaim
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.policy.policy import Policy
from gpu_core.worker import WORKERS, GpuKubernetesWorker
from gpu_core.worker.operations.bounded_call import begin
from gpu_core.worker.startup.checks import read_settings
from gpu_core.worker.startup.secrecy import Secrets, prefect_keys, secrets_of
from gpu_core.worker.startup.settings import GpuWorkerSettings

_CLUSTER_S = 45.0
"""For a log-in program of a cloud, and for the parts, which have limits of their own."""

_DEFAULT_NAMESPACE = "default"
# Where each pod finds the namespace of its ServiceAccount.
_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def doctor(options: DoctorOptions, ledger_url: str | None) -> int:
    """Print what every check has found. Returns the exit code: 1 where one has failed.

    Raises:
        InvalidInput: An option cannot be used.
    """
    if options.pool is not None:
        check_pool_name(options.pool)
    _check_service_account(options.service_account)
    if options.policy_path is not None and not options.policy_path.is_file():
        raise InvalidInput("--policy", "is not a file", got=str(options.policy_path))
    secrets = Secrets()
    secrets.add((*prefect_keys(), *secrets_of(os.environ)))
    findings = [redacted(each, secrets.hidden) for each in _findings(options, ledger_url, secrets)]
    if options.as_json:
        print(as_json(findings))
    else:
        print(as_text(findings, with_details=options.with_details))
    return int(has_failed(findings))


def _check_service_account(given: str | None) -> None:
    if given is not None and (given.count("/") != 1 or not all(given.split("/"))):
        raise InvalidInput(
            "--service-account", "is not a ServiceAccount", got=given, allowed="NAMESPACE/NAME"
        )


def _findings(options: DoctorOptions, ledger_url: str | None, secrets: Secrets) -> list[Finding]:
    settings, mistakes = read_settings(os.environ)
    secrets.add(settings.secrets())
    found = list(package_findings(version("prefect-gpu"), python_version(), _requirements()))
    policy, of_policy = _policy(options, settings)
    found += [failed("settings.worker", str(mistake)) for mistake in mistakes]
    found += of_policy
    state_dir = settings.resolved_state_dir()

    async def read(client: PrefectClient) -> PrefectFacts:
        return await read_prefect_facts(client, options.pool, settings, state_dir)

    facts, of_prefect = examine_prefect(lambda: ask(read), options.worker_type, policy)
    places = read_places(facts, settings, ledger_url, state_dir)
    secrets.add(places.secrets())
    calls = [_infrastructure(options, settings, policy, facts, places)]
    calls += service_calls(places, in_pods=_type(options, facts) == GpuKubernetesWorker.type)
    # None of them needs the answer of another one.
    began_s = time.monotonic()
    begun = [(call, begin(call.examine)) for call in calls]
    answers = (_answer(call, answer, began_s) for call, answer in begun)
    return [*found, *of_prefect, *(each for answer in answers for each in answer)]


def _requirements() -> Iterator[Requirement]:
    """The packages that the installed prefect-gpu declares, those of its extras left out."""
    for line in requires("prefect-gpu") or ():
        declared = Declared(line)
        if declared.marker is not None and not declared.marker.evaluate({"extra": ""}):
            continue
        installed = _installed(declared.name)
        is_met = installed is not None and declared.specifier.contains(installed, prereleases=True)
        yield Requirement(
            name=declared.name,
            wanted=str(declared.specifier),
            installed=installed,
            is_met=is_met,
        )


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _infrastructure(
    options: DoctorOptions,
    settings: GpuWorkerSettings,
    policy: Policy,
    facts: PrefectFacts | None,
    places: StoreAddresses,
) -> Call:
    if _type(options, facts) == GpuKubernetesWorker.type:
        question = _cluster_question(options, settings, policy, facts, places)
        return Call("kubernetes.api", lambda: asyncio.run(examine_cluster(question)), _CLUSTER_S)
    return Call("gpus.nvml", partial(machine_gpu_findings, policy, dict(os.environ)))


def _answer(call: Call, answer: Future[list[Finding]], began_s: float) -> Sequence[Finding]:
    """The findings of a check. A check that hangs or fails is also a finding."""
    try:
        return answer.result(max(0.0, call.longest_s - (time.monotonic() - began_s)))
    except TimeoutError:
        text = f"timed out after {call.longest_s:.0f}s"
        return [failed(call.check, text, "please check the logs of this service")]
    except Exception as error:
        return [
            failed(
                call.check,
                f"an error occurred while running this check: {type(error).__name__}: {error}",
            )
        ]


def _policy(options: DoctorOptions, settings: GpuWorkerSettings) -> tuple[Policy, list[Finding]]:
    """The policy to judge by, and what is wrong with it."""
    path = options.policy_path or settings.policy_path
    if path is None and DEFAULT_POLICY.is_file():
        path = DEFAULT_POLICY
    if path is None:
        text = (
            "No policy file found. Using the built-in policy, which does not define prices or "
            "virtual GPUs"
        )
        remedy = "please specify the worker's policy file with --policy"
        return Policy(version=1), [unknown("settings.policy", text, remedy)]
    try:
        policy = load_policy(path)
    except InvalidInput as error:
        return Policy(version=1), [failed("settings.policy", str(error), "prefect-gpu check FILE")]
    doubts = doubts_of_policy(policy, {})
    return policy, [
        ok("settings.policy", f"{path} is valid"),
        *[warning("settings.policy", f"{doubt.path} {doubt.message}") for doubt in doubts],
    ]


def _type(options: DoctorOptions, facts: PrefectFacts | None) -> str:
    """The type of the pool. Without a server, as this machine's files say."""
    if facts is not None and facts.pool is not None and facts.pool.worker_type in WORKERS:
        return facts.pool.worker_type
    in_cluster = "KUBERNETES_SERVICE_HOST" in os.environ or "KUBECONFIG" in os.environ
    return options.worker_type or ("gpu-kubernetes" if in_cluster else "gpu-process")


def _worker_namespace(options: DoctorOptions, settings: GpuWorkerSettings) -> str | None:
    """The namespace of the worker's lease: a setting, an option or this pod; None: unknown."""
    if settings.kubernetes_namespace is not None:
        return settings.kubernetes_namespace
    if options.service_account is not None:
        return options.service_account.partition("/")[0]
    try:
        return _POD_NAMESPACE.read_text(encoding="utf-8").strip() or None
    except OSError:
        return None


def _cluster_question(
    options: DoctorOptions,
    settings: GpuWorkerSettings,
    policy: Policy,
    facts: PrefectFacts | None,
    places: StoreAddresses,
) -> ClusterQuestion:
    template = {} if facts is None else facts.template
    default = default_of(template, "namespace")
    own = default if isinstance(default, str) else _DEFAULT_NAMESPACE
    others = () if facts is None else facts.namespaces
    return ClusterQuestion(
        pool=options.pool or DEFAULT_POOL if facts is None else facts.pool_name,
        policy=policy.kubernetes,
        quotas=policy.quotas,
        template=template,
        namespaces=tuple(dict.fromkeys((own, *others))),
        lease_namespace=_worker_namespace(options, settings),
        service_account=options.service_account,
        cluster_config=None if facts is None else facts.cluster_config,
        read_claim=_claim_reader(facts, places),
        claim_in_prefect=None if facts is None else facts.claim,
        has_prometheus=policy.telemetry.prometheus_url is not None,
    )


def _claim_reader(
    facts: PrefectFacts | None, places: StoreAddresses
) -> Callable[[], PoolClaim | None] | None:
    pool_id = None if facts is None else facts.pool_id
    # A default ledger is a file of the worker's pod, which is not shared.
    if pool_id is None or places.ledger_url is None or places.has_default_ledger:
        return None
    return partial(inspect_claim, places.ledger_url, pool_id)
