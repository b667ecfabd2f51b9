{{- define "prefect-gpu.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "prefect-gpu.fullname" -}}
{{- $name := include "prefect-gpu.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 56 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 56 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 56 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "prefect-gpu.worker" -}}
{{- printf "%s-worker" (include "prefect-gpu.fullname" .) -}}
{{- end -}}

{{- define "prefect-gpu.nodeExporter" -}}
{{- printf "%s-nodes" (include "prefect-gpu.fullname" .) -}}
{{- end -}}

{{- define "prefect-gpu.nodeExporterSelector" -}}
app.kubernetes.io/name: {{ include "prefect-gpu.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: node-exporter
{{- end -}}

{{- /* Objects of the cluster, and objects in the runs' namespaces, which releases may share. */ -}}
{{- define "prefect-gpu.uniqueName" -}}
{{- printf "prefect-gpu:%s:%s" .Release.Namespace (include "prefect-gpu.fullname" .) -}}
{{- end -}}

{{- define "prefect-gpu.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "prefect-gpu.worker" .) -}}
{{- end -}}

{{- define "prefect-gpu.selector" -}}
app.kubernetes.io/name: {{ include "prefect-gpu.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: worker
{{- end -}}

{{- define "prefect-gpu.labels" -}}
app.kubernetes.io/name: {{ include "prefect-gpu.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "prefect-gpu.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository ($image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- /*
The name of an object, as gpu_core/decisions/kubernetes/manifests/names.py makes it.
Takes a list: the prefix and the text.
*/ -}}
{{- define "prefect-gpu.objectName" -}}
{{- $name := join "" . -}}
{{- if and (le (len $name) 47) (regexMatch "^[a-z0-9-]*[a-z0-9]$" $name) -}}
{{- $name -}}
{{- else -}}
{{- $slug := regexReplaceAll "[^a-z0-9]+" (lower $name) "-" | trimAll "-" | trunc 38 | trimSuffix "-" -}}
{{- printf "%s-%s" $slug (sha256sum $name | trunc 8) -}}
{{- end -}}
{{- end -}}

{{- define "prefect-gpu.lease" -}}
{{- include "prefect-gpu.objectName" (list "gpu-" (printf "pool-%s" .Values.pool)) -}}
{{- end -}}

{{- /* The policy as data, whether the values have it as YAML or as text. */ -}}
{{- define "prefect-gpu.policy" -}}
{{- if kindIs "string" .Values.policy -}}
{{- $policy := fromYaml .Values.policy -}}
{{- with $policy.Error }}{{ fail (printf "policy is not YAML: %s" .) }}{{ end -}}
{{- toYaml $policy -}}
{{- else -}}
{{- toYaml (.Values.policy | default (dict "version" 1)) -}}
{{- end -}}
{{- end -}}

{{- /* Points by queue: the policy's, else those of gpu_core/decisions/policy/policy.py. */ -}}
{{- define "prefect-gpu.priorities" -}}
{{- $policy := include "prefect-gpu.policy" . | fromYaml -}}
{{- $policy.priorities | default (dict "critical" 1000000 "high" 10000 "medium" 1000 "low" 100) | toYaml -}}
{{- end -}}

{{- /* The API group and the resource of each framework that is on. */ -}}
{{- define "prefect-gpu.frameworks" -}}
{{- $known := dict "ray" (list "ray.io" "rayjobs") "kubeflow" (list "trainer.kubeflow.org" "trainjobs") "spark" (list "sparkoperator.k8s.io" "sparkapplications") -}}
{{- $on := list -}}
{{- range $name, $kind := $known -}}
{{- if index $.Values.frameworks $name }}{{ $on = append $on $kind }}{{ end -}}
{{- end -}}
{{- toJson $on -}}
{{- end -}}

{{- /* What the schema cannot say: values that contradict each other. */ -}}
{{- define "prefect-gpu.check" -}}
{{- $values := .Values -}}
{{- range $name := list "apiKey" "authString" -}}
{{- if and (index $values.prefect $name).existingSecret (not (index $values.runs $name).existingSecret) -}}
{{- fail (printf "runs.%s.existingSecret is required with prefect.%s: without it each Job holds the value in plain text" $name $name) -}}
{{- end -}}
{{- end -}}
{{- $names := list -}}
{{- range $values.runs.namespaces -}}
{{- if eq .name $.Release.Namespace -}}
{{- fail (printf "runs.namespaces names %s, the namespace of the release: runs there could mount the worker's Secrets. Install the release in another namespace" .name) -}}
{{- end -}}
{{- if has .name $names -}}
{{- fail (printf "runs.namespaces names %s twice" .name) -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- include "prefect-gpu.checkOtherReleases" . -}}
{{- $kubernetes := (include "prefect-gpu.policy" . | fromYaml).kubernetes | default dict -}}
{{- if and (or $kubernetes.preflight $kubernetes.prepull) (not $values.nodeAnnotations.enabled) -}}
{{- fail "nodeAnnotations.enabled=true is required: the policy has kubernetes.preflight or kubernetes.prepull, which annotate nodes" -}}
{{- end -}}
{{- end -}}

{{- /*
Two releases for one pool: one would stand by for ever. By their ClusterRoles, which the account that installs the chart may
read, and which are few. Without a cluster (helm template) there are none to look at.
*/ -}}
{{- define "prefect-gpu.checkOtherReleases" -}}
{{- range (lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" "").items -}}
{{- $annotations := .metadata.annotations | default dict -}}
{{- if and (eq (index $annotations "prefect-gpu.dev/pool" | default "") $.Values.pool) (ne .metadata.name (include "prefect-gpu.uniqueName" $)) -}}
{{- $release := index $annotations "meta.helm.sh/release-name" | default "another release" -}}
{{- $namespace := index $annotations "meta.helm.sh/release-namespace" | default "another namespace" -}}
{{- fail (printf "pool %s has the release %s in namespace %s already: set another pool, or uninstall that one first (helm uninstall %s --namespace %s)" $.Values.pool $release $namespace $release $namespace) -}}
{{- end -}}
{{- end -}}
{{- end -}}
