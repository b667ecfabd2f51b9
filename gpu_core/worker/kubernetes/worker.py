"""The worker type `gpu-kubernetes`: GPUs of a cluster, runs as Jobs."""

from collections.abc import Collection, Mapping
from typing import Any, Literal, Self

import anyio.abc
import httpx
from prefect.blocks.core import Block
from prefect.workers.base import BaseWorker
from prefect_kubernetes.credentials import KubernetesClusterConfig
from prefect_kubernetes.settings import KubernetesSettings
from prefect_kubernetes.worker import KubernetesWorker

from gpu_core.adapters.kubernetes import KubernetesApi, KubernetesError
from gpu_core.adapters.prefect.pool_claims import claim_pool, variable_name
from gpu_core.decisions.checks.prefect.pool_claim import PoolClaim
from gpu_core.decisions.costs.mlflow.mlflow_access import missing_secrets
from gpu_core.decisions.kubernetes.manifests.names import job_name
from gpu_core.decisions.kubernetes.manifests.prefect_secrets import (
    plain_key_warnings,
    prefect_secrets,
)
from gpu_core.decisions.kubernetes.variables.prefect_fields import without_fields_not_offered
from gpu_core.decisions.policy.kubernetes import SecretReference
from gpu_core.decisions.requests.variables.env_variable import variable_defaults
from gpu_core.worker.base import GpuWorker
from gpu_core.worker.infrastructure import Infrastructure
from gpu_core.worker.kubernetes.infrastructure import KubernetesInfrastructure
from gpu_core.worker.kubernetes.leadership.leadership import ClusterLeadership, LedPool
from gpu_core.worker.kubernetes.variables import (
    GpuKubernetesJobConfiguration,
    GpuKubernetesVariables,
)
from gpu_core.worker.operations.throttle import LastSaid
from gpu_core.worker.startup.checks import CannotStart
from gpu_core.worker.startup.leadership import Leadership
from gpu_core.worker.watch.policy import PolicySource

_DEFAULT_NAMESPACE = "default"

_NO_VARIABLES = frozenset({httpx.codes.FORBIDDEN, httpx.codes.NOT_FOUND})

_Use = Literal["cluster", "lease", "output"]


class GpuKubernetesWorker(GpuWorker, KubernetesWorker):
    """Schedules the runs of a work pool on the GPUs of a Kubernetes cluster.

    One worker for each pool acts; others of the same installation take over within 15 seconds.
    """

    type = "gpu-kubernetes"
    job_configuration = GpuKubernetesJobConfiguration
    job_configuration_variables = GpuKubernetesVariables
    _display_name = "GPU Kubernetes"
    _description = (
        "Run flows and containers on the GPUs of a Kubernetes cluster. Runs have priorities, "
        "quotas, gangs, preemption, resumption, and a cost."
    )

    # A start waits for Prefect's server, then for the cluster: with few at a time the server idles.
    # With many a request of the cycle shares the server with as many others, and takes seconds.
    starts_at_once = 8

    @classmethod
    def get_default_base_job_template(cls) -> dict[str, Any]:
        """The template of a new pool: without the variables of Prefect that would do nothing."""
        template, _ = without_fields_not_offered(super().get_default_base_job_template())
        return template

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._apis: dict[_Use, KubernetesApi] = {}
        self._prefect_secrets: Mapping[str, SecretReference] = {}
        self._why_no_claim = LastSaid()

    async def __aenter__(self) -> Self:
        # Without prefect-kubernetes' observer: it would judge the ends of Jobs a second time.
        await BaseWorker.__aenter__(self)
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        await BaseWorker.__aexit__(self, *exc_info)

    async def setup(self) -> None:
        """Refuse settings that would be ignored in silence, before the first request."""
        self._prefect_secrets = prefect_secrets(KubernetesSettings().worker.model_dump())
        await super().setup()

    async def _release_resources(self) -> None:
        await super()._release_resources()
        apis, self._apis = self._apis, {}
        for api in apis.values():
            await api.close()

    def _new_leadership(self) -> Leadership:
        self._lease = ClusterLeadership(
            lambda: self._connected("lease"),
            self._gpu_settings.kubernetes_namespace or _DEFAULT_NAMESPACE,
            LedPool(
                id=lambda: str(self.work_pool.id),
                name=self._work_pool_name,
                lease=job_name(f"pool-{self._work_pool_name}"),
                ledger=self._opened_ledger,
                prefect=self._claim_in_prefect,
            ),
            self._task_group,
            self._wake,
        )
        return self._lease

    async def _claim_in_prefect(self, wanted: PoolClaim, instead_of: PoolClaim | None) -> PoolClaim:
        """The claim that counts; the wanted one where the account may not use variables."""
        try:
            return await claim_pool(self.client, wanted, instead_of)
        except httpx.HTTPStatusError as error:
            if error.response.status_code not in _NO_VARIABLES:
                raise
            if self._why_no_claim.is_news(str(error.response.status_code)):
                self._logger.warning(
                    "The Prefect API returned HTTP %d for variable %s, so installations "
                    "with another ledger are not detected. Ensure that the worker's account "
                    "can write variables",
                    *(error.response.status_code, variable_name(wanted.pool_id)),
                )
            return wanted

    async def _new_infrastructure(
        self, policies: PolicySource, tasks: anyio.abc.TaskGroup
    ) -> Infrastructure:
        policy = policies.current()
        in_secrets = self._prefect_secrets.keys() | policy.kubernetes.secrets.keys()
        for warning in plain_key_warnings(
            GpuKubernetesJobConfiguration._base_environment(), in_secrets
        ):
            self._logger.warning(warning)
        self._warn_of_missing_secrets(in_secrets)
        infrastructure = KubernetesInfrastructure(
            await self._connected("cluster"),
            output_api=await self._connected("output"),
            pool=self._work_pool_name,
            namespace=self._namespace,
            client=self.client,
            wake=self._wake,
            may_act=lambda: self._lease.is_held,
            starts=self._starts,
            prefect_secrets=self._prefect_secrets,
            template=lambda: self._template,
            hidden=self._secrets.hidden,
        )
        await infrastructure.start_watching(tasks, policy)
        return infrastructure

    def _warn_of_missing_secrets(self, in_secrets: Collection[str]) -> None:
        connections = self._stores.connections
        mlflow = None if connections is None else connections.mlflow
        for name in () if mlflow is None else missing_secrets(mlflow, in_secrets):
            self._logger.warning(
                "%s is set for the worker but is not passed to runs. To pass it, add a "
                "Secret that contains it to `kubernetes.secrets` in the policy",
                name,
            )

    def _task_group(self) -> anyio.abc.TaskGroup:
        if self._tasks is None:
            raise RuntimeError("the worker has not been set up")
        return self._tasks

    async def _connected(self, use: _Use) -> KubernetesApi:
        """A client for this use alone: its connections are taken by nothing else."""
        if use not in self._apis:
            cluster = await self._cluster()
            try:
                self._apis[use] = await KubernetesApi.connect(
                    None if cluster is None else cluster.config,
                    None if cluster is None else cluster.context_name,
                )
            except KubernetesError as error:
                raise CannotStart(error.message) from error
        return self._apis[use]

    async def _cluster(self) -> KubernetesClusterConfig | None:
        """The cluster block of the pool's template: one for all its runs, or there is none."""
        reference = self._default("cluster_config")
        if not isinstance(reference, dict):
            return None
        document_id = (reference.get("$ref") or {}).get("block_document_id")
        if document_id is None:
            return KubernetesClusterConfig.model_validate(reference)
        document = await self.client.read_block_document(document_id, include_secrets=True)
        block = Block._from_block_document(document)
        if not isinstance(block, KubernetesClusterConfig):
            raise TypeError(f"the pool's cluster_config is a {type(block).__name__}")
        return block

    @property
    def _namespace(self) -> str:
        """The default namespace of the pool's Jobs. A run can override it."""
        namespace = self._default("namespace")
        return namespace if isinstance(namespace, str) else _DEFAULT_NAMESPACE

    def _default(self, variable: str) -> object:
        return variable_defaults(self._template).get(variable)
