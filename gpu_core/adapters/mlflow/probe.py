"""Does MLflow answer, and as whom? One question that changes nothing, without MLflow's retries."""

import time
from base64 import b64encode

import httpx

from gpu_core.decisions.checks.doctor.services import MlflowProbe
from gpu_core.decisions.costs.mlflow.mlflow_access import MlflowAccess
from gpu_core.decisions.model.errors import GpuSchedulingError

_TIMEOUT_S = 8.0


class MlflowUnreachable(GpuSchedulingError):
    """Nothing answers at MLflow's address."""


def is_server(access: MlflowAccess) -> bool:
    """Is it a server that is asked by HTTP, rather than a database or Databricks?"""
    return access.tracking_uri.lower().startswith(("http://", "https://"))


def probe_mlflow(access: MlflowAccess) -> MlflowProbe:
    """Ask a server for one experiment.

    Raises:
        MlflowUnreachable: Nothing answers, or no HTTP.
    """
    address = access.tracking_uri.rstrip("/")
    began_s = time.perf_counter()
    try:
        # As MLflow's client asks (REST API 2.0, `experiments/search`).
        response = httpx.post(
            f"{address}/api/2.0/mlflow/experiments/search",
            json={"max_results": 1},
            headers=_credentials(access),
            timeout=_TIMEOUT_S,
        )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        why = str(error) or type(error).__name__
        raise MlflowUnreachable(f"failed to connect to {address}: {why}") from error
    return MlflowProbe(
        address=access.tracking_uri,
        status=response.status_code,
        has_credentials=access.has_credentials,
        took_s=time.perf_counter() - began_s,
    )


def _credentials(access: MlflowAccess) -> dict[str, str]:
    if access.token is not None:
        return {"Authorization": f"Bearer {access.token}"}
    if access.username is None:
        return {}
    pair = f"{access.username}:{access.password or ''}".encode()
    return {"Authorization": f"Basic {b64encode(pair).decode()}"}
