"""The tags by which a flow run and its MLflow run find each other."""

FLOW_RUN_TAG = "prefect.flow_run_id"
DEPLOYMENT_TAG = "prefect.deployment"
ATTEMPT_TAG = "prefect.attempt"
TEAM_TAG = "finops.team"

PARENT_TAG = "mlflow.parentRunId"
"""MLflow's own: the run under which its pages show this one."""

CONFIGURATION_TAG = "prefect_gpu.configuration"
"""The MLflow run is one of those that an experiment compares."""

SWEEP_TAG = "prefect_gpu.sweep"
"""The MLflow run is the parent of the trials of this sweep."""

TRACKED_RUN_TAG = "prefect_gpu.tracked_run"
"""The MLflow run that stands for the whole flow run, over all its attempts. Runs that the flow
starts by itself carry its id too, and are neither resumed nor given its cost while there is one."""
