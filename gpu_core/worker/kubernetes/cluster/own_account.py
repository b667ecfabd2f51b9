"""The worker's own objects in the cluster: its ServiceAccount, and the Secrets that it reads."""

import logging

from gpu_core.adapters.kubernetes import KubernetesApi, KubernetesError
from gpu_core.decisions.kubernetes.manifests.references import references
from gpu_core.decisions.kubernetes.rbac.account_token import account_of
from gpu_core.decisions.kubernetes.rbac.permitted_references import WorkersOwn
from gpu_core.decisions.policy.permissions import Referred
from gpu_core.worker.kubernetes.cluster.rbac_warnings import MissingRights

_log = logging.getLogger("prefect.gpu.kubernetes")


async def read_workers_own(api: KubernetesApi, rights: MissingRights) -> WorkersOwn | None:
    """The worker's own ServiceAccount and Secrets; None: it logs in with no ServiceAccount.

    Its account is read from its token, its Secrets from its own pod, where it runs in one.

    Args:
        api: The cluster.
        rights: What the worker lacks.
    """
    account = account_of(await api.token() or "")
    if account is None:
        return None
    secrets: frozenset[str] = frozenset()
    if account.pod is not None:
        path = f"/api/v1/namespaces/{account.namespace}/pods/{account.pod}"
        try:
            pod = await api.get(path)
        except KubernetesError as error:
            rights.note(error, "runs might be able to use the worker's Secrets without permission")
            _log.debug("Failed to read the worker pod: %s", error)
        else:
            found = references(pod.get("spec"))
            secrets = frozenset(each.name for each in found if each.what is Referred.SECRET)
    return WorkersOwn(namespace=account.namespace, service_account=account.name, secrets=secrets)
