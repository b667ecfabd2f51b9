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
    _row(
        "PodSpec",
        "automountServiceAccountToken",
        LISTED,
        "Gives the pod a token for the API server.",
    ),
    _row(
        "PodSpec",
        "hostNetwork hostPID hostIPC",
        LISTED,
        "Gives the pod access to the namespaces of the node.",
    ),
    _row(
        "PodSpec",
        "shareProcessNamespace",
        LISTED,
        "Gives the run access to the processes of sidecars.",
    ),
    _row("PodSpec", "runtimeClassName overhead", LISTED, "Selects a different container runtime."),
    _row("PodSpec", "nodeName schedulerName", LISTED, "Bypasses the kube-scheduler."),
    _row("PodSpec", "priorityClassName priority", LISTED, "Allows the pod to preempt other pods."),
    _row(
        "PodSpec",
        "tolerations",
        LISTED,
        "Allows the pod to use reserved nodes, or to stay on failed nodes.",
    ),
    _row(
        "PodSpec",
        "schedulingGates schedulingGroup",
        LISTED,
        "Delays the pod while its GPUs are reserved.",
    ),
    _row(
        "PodSpec",
        "resourceClaims",
        LISTED,
        "Requests devices that are not included in the plan. Always requires a list.",
    ),
    _row(
        "PodSpec", "resources", LISTED, "Requests CPU and memory that are not included in the plan."
    ),
    _row("PodSpec", "restartPolicy terminationGracePeriodSeconds", OURS, ""),
    _row("PodSpec", "ephemeralContainers", REFUSED, "Not supported by the API server for Jobs."),
    _row(
        "PodSpec",
        "nodeSelector topologySpreadConstraints",
        FREE,
        "Only limits the nodes of this run.",
    ),
    _row(
        "PodSpec",
        "hostAliases dnsConfig dnsPolicy",
        FREE,
        "Only affects the name resolution of this run.",
    ),
    _row(
        "PodSpec",
        "hostname subdomain setHostnameAsFQDN hostnameOverride",
        FREE,
        "Only affects the name of the pod. For gangs, it is set by the worker.",
    ),
    _row("PodSpec", "hostUsers", FREE, "Can only increase the isolation from the node."),
    _row("PodSpec", "preemptionPolicy", FREE, "Must match the priority class of the pod."),
    _row(
        "PodSpec",
        "activeDeadlineSeconds enableServiceLinks os readinessGates",
        FREE,
        "Only affects this run.",
    ),
    _row("Affinity", "nodeAffinity podAffinity", FREE, "Only limits the nodes of this run."),
    _row(
        "Affinity",
        "podAntiAffinity",
        LISTED,
        "Prevents other pods from being scheduled on the nodes of the run.",
    ),
    # -- privileges ------------------------------------------------------------------------------
    _row("PodSecurityContext", "sysctls", LISTED, "Changes settings of the kernel."),
    _row(
        "PodSecurityContext",
        "runAsUser runAsGroup fsGroup supplementalGroups",
        LISTED,
        "Gives access to the files of other users in shared volumes.",
    ),
    _row("PodSecurityContext", "runAsNonRoot", LISTED, "Allows root if set to `false`."),
    _row(
        "PodSecurityContext",
        "seccompProfile appArmorProfile",
        LISTED,
        "Required for all types except `RuntimeDefault`, even if set by an annotation.",
    ),
    _row(
        "PodSecurityContext",
        "seLinuxOptions windowsOptions",
        LISTED,
        "Changes the confinement of the pod.",
    ),
    _row(
        "PodSecurityContext",
        "fsGroupChangePolicy supplementalGroupsPolicy seLinuxChangePolicy",
        FREE,
        "Only affects how volumes are labeled.",
    ),
    _row(
        "SecurityContext",
        "privileged allowPrivilegeEscalation procMount capabilities",
        LISTED,
        "Adds privileges. For `capabilities`, only added capabilities require the permission.",
    ),
    _row(
        "SecurityContext",
        "runAsUser runAsGroup runAsNonRoot",
        LISTED,
        "See the same fields of the pod.",
    ),
    _row(
        "SecurityContext",
        "seccompProfile appArmorProfile seLinuxOptions windowsOptions",
        LISTED,
        "See the same fields of the pod.",
    ),
    _row(
        "SecurityContext",
        "readOnlyRootFilesystem",
        FREE,
        "Only affects the files of the container.",
    ),
    # -- containers ------------------------------------------------------------------------------
    _row(
        "Container",
        "name image imagePullPolicy command args workingDir stdin stdinOnce tty "
        "terminationMessagePath terminationMessagePolicy resizePolicy",
        FREE,
        "Determines what the container runs. To restrict images, use an admission policy.",
    ),
    _row(
        "Container",
        "restartPolicy restartPolicyRules",
        FREE,
        "Only for additional containers. The container of the run is restarted by the worker.",
    ),
    _row("Container", "volumeDevices", FREE, "The volume itself requires a permission."),
    _row("ResourceRequirements", "limits requests", FREE, "GPUs cannot exceed the plan."),
    _row("ResourceRequirements", "claims", FREE, "Refers to the `resourceClaims` of the pod."),
    _row("EnvVar", "name value", FREE, ""),
    _row(
        "EnvVarSource",
        "fieldRef resourceFieldRef fileKeyRef",
        FREE,
        "Only reads fields of the pod.",
    ),
    _row("EnvVarSource", "secretKeyRef", NAMED, "`secrets`"),
    _row("EnvVarSource", "configMapKeyRef", NAMED, "`config_maps`"),
    _row("EnvFromSource", "prefix", FREE, ""),
    _row("EnvFromSource", "secretRef", NAMED, "`secrets`"),
    _row("EnvFromSource", "configMapRef", NAMED, "`config_maps`"),
    _row("ContainerPort", "hostPort", LISTED, "Opens a port of the node."),
    _row("ContainerPort", "containerPort hostIP name protocol", FREE, ""),
    _row("VolumeMount", "mountPropagation", LISTED, "Makes mounts visible on the node."),
    _row(
        "VolumeMount",
        "mountPath name readOnly recursiveReadOnly subPath subPathExpr",
        FREE,
        "The volume itself requires a permission.",
    ),
    _row(
        "Probe",
        "failureThreshold initialDelaySeconds periodSeconds successThreshold "
        "terminationGracePeriodSeconds timeoutSeconds grpc",
        FREE,
        "",
    ),
    _row("Lifecycle", "stopSignal", FREE, "Only affects the process of the container."),
    _row("LifecycleHandler", "sleep", FREE, ""),
    _row("ExecAction", "command", FREE, "Runs in the container itself."),
    _row("HTTPGetAction", "host", LISTED, "Lets the kubelet send requests to other hosts."),
    _row("HTTPGetAction", "httpHeaders path port scheme", FREE, "Only connects to the pod itself."),
    _row("TCPSocketAction", "host", LISTED, "Lets the kubelet connect to other hosts."),
    _row("TCPSocketAction", "port", FREE, "Only connects to the pod itself."),
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
        "Mounts data from outside the cluster.",
    ),
    _row("ProjectedVolumeSource", "defaultMode", FREE, ""),
    _row("VolumeProjection", "downwardAPI", FREE, ""),
    _row("VolumeProjection", "secret", NAMED, "`secrets`"),
    _row("VolumeProjection", "configMap", NAMED, "`config_maps`"),
    _row(
        "VolumeProjection",
        "serviceAccountToken clusterTrustBundle podCertificate",
        LISTED,
        "Provides a token or a certificate.",
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
