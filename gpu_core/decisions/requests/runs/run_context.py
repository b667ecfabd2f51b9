"""The context of a run: environment variables and files in its run folder.

The worker writes it, the runtime inside the run reads it. A user's flow therefore needs no
block of ours and no connection to the worker. Three small JSON files in the run folder carry
what changes while the run lives: `notice.json` (worker to run: end soon), `checkpoint.json`
(run to worker: what is safe), `exit.json` (launcher to worker: how it ended). Each is replaced
atomically.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from gpu_core.decisions.model.capacity_life import CapacityLife
from gpu_core.decisions.model.units import require_aware

NOTICE_FILE = "notice.json"
CHECKPOINT_FILE = "checkpoint.json"
EXIT_FILE = "exit.json"

_FLOW_RUN_ID = "PREFECT__FLOW_RUN_ID"  # Prefect's own
_ATTEMPT = "PREFECT_GPU_ATTEMPT"
_ATTEMPT_ID = "PREFECT_GPU_ATTEMPT_ID"
_DEVICES = "PREFECT_GPU_DEVICES"
_TYPE = "PREFECT_GPU_TYPE"
_RUN_DIR = "PREFECT_GPU_RUN_DIR"
_CHECKPOINT_URI = "PREFECT_GPU_CHECKPOINT_URI"
_CHECKPOINT_INTERVAL_S = "PREFECT_GPU_CHECKPOINT_INTERVAL_S"
_CHECKPOINT_INTERVAL_ADAPTS = "PREFECT_GPU_CHECKPOINT_INTERVAL_ADAPTS"
_CHECKPOINTS_KEPT = "PREFECT_GPU_CHECKPOINTS_KEPT"
_REFUSES_PICKLES = "PREFECT_GPU_CHECKPOINTS_REFUSE_PICKLES"
_REQUIRES_SIGNATURES = "PREFECT_GPU_CHECKPOINTS_REQUIRE_SIGNATURES"
_CAPACITY_LIFE = "PREFECT_GPU_CAPACITY_LIFE"
_CAPACITY_SINCE = "PREFECT_GPU_CAPACITY_SINCE"
_GRACE_S = "PREFECT_GPU_GRACE_S"
_NOTICE_FILE = "PREFECT_GPU_NOTICE_FILE"
_INSTANCE_METADATA_URL = "PREFECT_GPU_INSTANCE_METADATA_URL"
_MICRO_BATCH_DIVISOR = "PREFECT_GPU_MICRO_BATCH_DIVISOR"
_NAME = "PREFECT_GPU_RUN_NAME"
_TEAM = "PREFECT_GPU_TEAM"
_PROJECT = "PREFECT_GPU_PROJECT"
_DEPLOYMENT = "PREFECT_GPU_DEPLOYMENT"
_REPORTS = "PREFECT_GPU_REPORTS"
_TO_PREFECT = "prefect"

MICRO_BATCH_LABEL = "prefect-gpu.micro-batch.attempt_id"
"""Of a flow run whose worker shares no folder with it: the attempt that called `micro_batch()`."""

ATTEMPT_ID_VARIABLE = _ATTEMPT_ID
"""Every process of an attempt carries this variable: it is how they are all found again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """One attempt of one flow run, as seen from inside."""

    flow_run_id: str
    attempt: int
    attempt_id: str
    name: str | None = None
    """The flow run's name."""
    devices: tuple[str, ...] = ()
    gpu_type: str | None = None
    run_dir: str | None = None
    checkpoint_uri: str | None = None
    """The checkpoint store's root; None: this run has nowhere to save."""
    checkpoint_interval_s: int = 600
    checkpoint_interval_adapts: bool = False
    """`auto`: the interval holds until saves were measured, and then follows what they cost."""
    checkpoints_kept: int = 2
    refuses_pickles: bool = False
    """The policy restores no pickle, and saves none."""
    requires_signatures: bool = False
    """The policy restores no checkpoint without a valid signature."""
    capacity_life: CapacityLife | None = None
    """How long capacity of this kind lives; None: no hazard is known (on-demand)."""
    capacity_since: datetime | None = None
    """The moment at which this capacity came up; None: taken for as old as the process."""
    grace_s: int = 30
    """The time that is left after a SIGTERM without notice. 30 s is Kubernetes' default."""
    notice_file: str | None = None
    """The file in which Kubernetes mounts the pod's notice annotation."""
    instance_metadata_url: str | None = None
    """The address at which EC2's metadata service is asked for interruptions; None: none."""
    micro_batch_divisor: int = 1
    """How many times smaller its micro-batch is, because it ran out of its GPU's memory."""
    team: str | None = None
    project: str | None = None
    deployment: str | None = None
    reports_to_prefect: bool = False
    """Its worker shares no folder with it: it learns of checkpoints through Prefect's API."""

    def to_environment(self) -> dict[str, str]:
        """The environment variables that carry this context into the run."""
        values = {
            _FLOW_RUN_ID: self.flow_run_id,
            _ATTEMPT: str(self.attempt),
            _ATTEMPT_ID: self.attempt_id,
            _NAME: self.name,
            _DEVICES: ",".join(self.devices),
            _TYPE: self.gpu_type,
            _RUN_DIR: self.run_dir,
            _CHECKPOINT_URI: self.checkpoint_uri,
            _CHECKPOINT_INTERVAL_S: str(self.checkpoint_interval_s),
            _CHECKPOINT_INTERVAL_ADAPTS: "1" if self.checkpoint_interval_adapts else None,
            _CHECKPOINTS_KEPT: str(self.checkpoints_kept),
            _REFUSES_PICKLES: "1" if self.refuses_pickles else None,
            _REQUIRES_SIGNATURES: "1" if self.requires_signatures else None,
            _CAPACITY_LIFE: self.capacity_life.to_text() if self.capacity_life else None,
            _CAPACITY_SINCE: self.capacity_since.isoformat() if self.capacity_since else None,
            _GRACE_S: str(self.grace_s),
            _NOTICE_FILE: self.notice_file,
            _INSTANCE_METADATA_URL: self.instance_metadata_url,
            _MICRO_BATCH_DIVISOR: (
                str(self.micro_batch_divisor) if self.micro_batch_divisor > 1 else None
            ),
            _TEAM: self.team,
            _PROJECT: self.project,
            _DEPLOYMENT: self.deployment,
            _REPORTS: _TO_PREFECT if self.reports_to_prefect else None,
        }
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "RunContext | None":
        """The context of this process, or None outside a run that our worker started.

        Raises:
            InvalidInput: The life of the capacity cannot be understood, or has no time zone.
        """
        life, since = environment.get(_CAPACITY_LIFE), environment.get(_CAPACITY_SINCE)
        if _ATTEMPT_ID not in environment or _FLOW_RUN_ID not in environment:
            return None
        return cls(
            flow_run_id=environment[_FLOW_RUN_ID],
            attempt=int(environment[_ATTEMPT]),
            attempt_id=environment[_ATTEMPT_ID],
            name=environment.get(_NAME),
            devices=tuple(d for d in environment.get(_DEVICES, "").split(",") if d),
            gpu_type=environment.get(_TYPE),
            run_dir=environment.get(_RUN_DIR),
            checkpoint_uri=environment.get(_CHECKPOINT_URI),
            checkpoint_interval_s=int(environment.get(_CHECKPOINT_INTERVAL_S, "600")),
            checkpoint_interval_adapts=environment.get(_CHECKPOINT_INTERVAL_ADAPTS) == "1",
            checkpoints_kept=int(environment.get(_CHECKPOINTS_KEPT, "2")),
            refuses_pickles=environment.get(_REFUSES_PICKLES) == "1",
            requires_signatures=environment.get(_REQUIRES_SIGNATURES) == "1",
            capacity_life=CapacityLife.from_text(life) if life else None,
            capacity_since=_moment(since) if since else None,
            grace_s=int(environment.get(_GRACE_S, "30")),
            notice_file=environment.get(_NOTICE_FILE),
            instance_metadata_url=environment.get(_INSTANCE_METADATA_URL),
            micro_batch_divisor=int(environment.get(_MICRO_BATCH_DIVISOR, "1")),
            team=environment.get(_TEAM),
            project=environment.get(_PROJECT),
            deployment=environment.get(_DEPLOYMENT),
            reports_to_prefect=environment.get(_REPORTS) == _TO_PREFECT,
        )


def _moment(text: str) -> datetime:
    return require_aware(datetime.fromisoformat(text), _CAPACITY_SINCE)
