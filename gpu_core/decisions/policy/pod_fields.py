"""The fields of a PodSpec that a run may set through a template that is opened to it.

The fields are those of core/v1 in Kubernetes 1.36. The table in `docs/security.md` is made of this
list, and a test fails for a field that is not in it.
"""

from dataclasses import dataclass
from enum import StrEnum


class FieldSetter(StrEnum):
    """The rule for who may set a field that the pool's template leaves to runs."""

    FREE = "any run"
    LISTED = "`pod_fields`"
    """A run whose permission lists the field."""
    NAMED = "by its name"
    """A run whose permission lists the name that the field holds."""
    OURS = "the worker"
    """The worker writes it, and overwrites what the template and the run say."""
    REFUSED = "no run"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodField:
    """Fields of one type of Kubernetes' API, with all that stands in them."""

    of: str
    """The type, as in Kubernetes' reference."""
    names: tuple[str, ...]
    judgment: FieldSetter
    why: str


def _row(of: str, names: str, judgment: FieldSetter, why: str) -> PodField:
    return PodField(of=of, names=tuple(names.split()), judgment=judgment, why=why)


FREE, LISTED, NAMED = FieldSetter.FREE, FieldSetter.LISTED, FieldSetter.NAMED
OURS, REFUSED = FieldSetter.OURS, FieldSetter.REFUSED

TABLE = (
    # -- the pod ---------------------------------------------------------------------------------
    _row("PodSpec", "serviceAccountName serviceAccount", NAMED, "`service_accounts`"),
    _row("PodSpec", "imagePullSecrets", NAMED, "`secrets`"),
    _row("PodSpec", "automountServiceAccountToken", LISTED, "A token of the API server."),
    _row("PodSpec", "hostNetwork hostPID hostIPC", LISTED, "The namespaces of the node."),
    _row("PodSpec", "shareProcessNamespace", LISTED, "Reads the processes of sidecars."),
    _row("PodSpec", "runtimeClassName overhead", LISTED, "Another container runtime."),
    _row("PodSpec", "nodeName schedulerName", LISTED, "Passes by the kube-scheduler."),
    _row("PodSpec", "priorityClassName priority", LISTED, "Preempts pods of others."),
    _row("PodSpec", "tolerations", LISTED, "Nodes that are reserved, or silent for ever."),
    _row("PodSpec", "schedulingGates schedulingGroup", LISTED, "Waits, with its GPUs reserved."),
    _row(
        "PodSpec",
        "resourceClaims",
        LISTED,
        "Devices that the plan does not count: refused without a list, too.",
    ),
    _row("PodSpec", "resources", LISTED, "CPU and memory that the plan does not count."),
    _row("PodSpec", "restartPolicy terminationGracePeriodSeconds", OURS, ""),
    _row("PodSpec", "ephemeralContainers", REFUSED, "The API server accepts none in a Job."),
    _row("PodSpec", "nodeSelector topologySpreadConstraints", FREE, "Fewer nodes for itself."),
    _row("PodSpec", "hostAliases dnsConfig dnsPolicy", FREE, "Its own names of hosts."),
    _row(
        "PodSpec",
        "hostname subdomain setHostnameAsFQDN hostnameOverride",
        FREE,
        "Its own name; in a gang the worker writes it.",
    ),
    _row("PodSpec", "hostUsers", FREE, "Only to keep it further from the node."),
    _row("PodSpec", "preemptionPolicy", FREE, "The API server refuses another than its class has."),
    _row(
        "PodSpec",
        "activeDeadlineSeconds enableServiceLinks os readinessGates",
        FREE,
        "Affects this run only.",
    ),
    _row("Affinity", "nodeAffinity podAffinity", FREE, "Fewer nodes for itself."),
    _row("Affinity", "podAntiAffinity", LISTED, "Keeps pods of others from its nodes."),
    # -- privileges ------------------------------------------------------------------------------
    _row("PodSecurityContext", "sysctls", LISTED, "Settings of the kernel."),
    _row(
        "PodSecurityContext",
        "runAsUser runAsGroup fsGroup supplementalGroups",
        LISTED,
        "Files of others in shared volumes.",
    ),
    _row("PodSecurityContext", "runAsNonRoot", LISTED, "`false`: root."),
    _row(
        "PodSecurityContext",
        "seccompProfile appArmorProfile",
        LISTED,
        "Any type but `RuntimeDefault`, by an annotation, too.",
    ),
    _row("PodSecurityContext", "seLinuxOptions windowsOptions", LISTED, "Another confinement."),
    _row(
        "PodSecurityContext",
        "fsGroupChangePolicy supplementalGroupsPolicy seLinuxChangePolicy",
        FREE,
        "How volumes are labeled.",
    ),
    _row(
        "SecurityContext",
        "privileged allowPrivilegeEscalation procMount capabilities",
        LISTED,
        "More than a container has; `capabilities` where some are added.",
    ),
    _row("SecurityContext", "runAsUser runAsGroup runAsNonRoot", LISTED, "As for the pod."),
    _row(
        "SecurityContext",
        "seccompProfile appArmorProfile seLinuxOptions windowsOptions",
        LISTED,
        "As for the pod.",
    ),
    _row("SecurityContext", "readOnlyRootFilesystem", FREE, "Its own files."),
    # -- containers ------------------------------------------------------------------------------
    _row(
        "Container",
        "name image imagePullPolicy command args workingDir stdin stdinOnce tty "
        "terminationMessagePath terminationMessagePolicy resizePolicy",
        FREE,
        "What a container runs. Its image is for admission policies to judge.",
    ),
    _row(
        "Container",
        "restartPolicy restartPolicyRules",
        FREE,
        "Of further containers. The run's own has none: the worker starts the next attempt.",
    ),
    _row("Container", "volumeDevices", FREE, "The volume is judged."),
    _row("ResourceRequirements", "limits requests", FREE, "GPUs are the plan's: none beyond it."),
    _row("ResourceRequirements", "claims", FREE, "Names of the pod's `resourceClaims`."),
    _row("EnvVar", "name value", FREE, ""),
    _row("EnvVarSource", "fieldRef resourceFieldRef fileKeyRef", FREE, "The pod's own fields."),
    _row("EnvVarSource", "secretKeyRef", NAMED, "`secrets`"),
    _row("EnvVarSource", "configMapKeyRef", NAMED, "`config_maps`"),
    _row("EnvFromSource", "prefix", FREE, ""),
    _row("EnvFromSource", "secretRef", NAMED, "`secrets`"),
    _row("EnvFromSource", "configMapRef", NAMED, "`config_maps`"),
    _row("ContainerPort", "hostPort", LISTED, "A port of the node."),
    _row("ContainerPort", "containerPort hostIP name protocol", FREE, ""),
    _row("VolumeMount", "mountPropagation", LISTED, "Mounts of the node."),
    _row(
        "VolumeMount",
        "mountPath name readOnly recursiveReadOnly subPath subPathExpr",
        FREE,
        "The volume is judged.",
    ),
    _row(
        "Probe",
        "failureThreshold initialDelaySeconds periodSeconds successThreshold "
        "terminationGracePeriodSeconds timeoutSeconds grpc",
        FREE,
        "",
    ),
    _row("Lifecycle", "stopSignal", FREE, "What ends its own process."),
    _row("LifecycleHandler", "sleep", FREE, ""),
    _row("ExecAction", "command", FREE, "Within its own container."),
    _row("HTTPGetAction", "host", LISTED, "A request of the kubelet to another host."),
    _row("HTTPGetAction", "httpHeaders path port scheme", FREE, "To its own pod."),
    _row("TCPSocketAction", "host", LISTED, "A connection of the kubelet to another host."),
    _row("TCPSocketAction", "port", FREE, "To its own pod."),
    # -- volumes ---------------------------------------------------------------------------------
    _row("Volume", "name emptyDir downwardAPI", FREE, ""),
    _row("Volume", "secret", NAMED, "`secrets`"),
    _row("Volume", "configMap", NAMED, "`config_maps`"),
    _row("Volume", "persistentVolumeClaim", NAMED, "`claims`"),
    _row("Volume", "hostPath", NAMED, "`host_paths`"),
    _row(
        "Volume",
        "awsElasticBlockStore azureDisk azureFile cephfs cinder csi ephemeral fc flexVolume "
        "flocker gcePersistentDisk gitRepo glusterfs image iscsi nfs photonPersistentDisk "
        "portworxVolume quobyte rbd scaleIO storageos vsphereVolume",
        LISTED,
        "Something from outside of the cluster.",
    ),
    _row("ProjectedVolumeSource", "defaultMode", FREE, ""),
    _row("VolumeProjection", "downwardAPI", FREE, ""),
    _row("VolumeProjection", "secret", NAMED, "`secrets`"),
    _row("VolumeProjection", "configMap", NAMED, "`config_maps`"),
    _row(
        "VolumeProjection",
        "serviceAccountToken clusterTrustBundle podCertificate",
        LISTED,
        "A token or a certificate.",
    ),
)

_SOURCES = ("Volume", "VolumeProjection")

OTHER_SOURCES = frozenset(
    name
    for row in TABLE
    for name in row.names
    if row.of in _SOURCES and row.judgment is FieldSetter.LISTED
)
"""Sources of volumes that bring something from outside of the cluster, or a token."""

REACHING = (
    frozenset(
        name
        for row in TABLE
        for name in row.names
        if row.of not in _SOURCES and row.judgment is FieldSetter.LISTED
    )
    # Within `windowsOptions`; stated policies have it.
    | {"hostProcess"}
)
"""Fields by which a pod reaches the node, other pods or devices that it was not given."""

POD_FIELDS = REACHING | OTHER_SOURCES
"""The fields of pods that only the pool's template may set, unless a permission lists them."""

ONLY_LISTED = frozenset({"resourceClaims"})
"""Fields that need a permission that lists them, where `pod_fields` is left out or null, too."""
