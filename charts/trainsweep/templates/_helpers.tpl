{{/* Names, at most 63 characters: they become labels. */}}
{{- define "trainsweep.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "trainsweep.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "trainsweep.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "trainsweep.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "trainsweep.selector" -}}
app.kubernetes.io/name: {{ include "trainsweep.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "trainsweep.labels" -}}
{{ include "trainsweep.selector" . }}
app.kubernetes.io/component: operator
app.kubernetes.io/part-of: trainsweep
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "trainsweep.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "trainsweep.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name: name the existing ServiceAccount, or set serviceAccount.create to true" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "trainsweep.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{/*
What the operator does in a namespace that it watches: exactly the tables RIGHTS, which it checks at its start, and
EXPLAINING of trainsweep/runtime/startup.py. It may read no Secret and no ConfigMap, and touches Pods by patch only.
*/}}
{{- define "trainsweep.namespacedRules" -}}
# Patch: the finalizer; the spec is never written.
- apiGroups: [trainsweep.io]
  resources: [trainsweeps]
  verbs: [get, list, watch, patch]
- apiGroups: [trainsweep.io]
  resources: [trainsweeps/status]
  verbs: [update]
# An owner reference that blocks the owner's deletion needs this (OwnerReferencesPermissionEnforcement).
- apiGroups: [trainsweep.io]
  resources: [trainsweeps/finalizers]
  verbs: [update]
- apiGroups: [trainsweep.io]
  resources: [trainsweepholds]
  verbs: [get, list, create, delete]
- apiGroups: [ray.io]
  resources: [rayjobs]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [ray.io]
  resources: [rayclusters]
  # Delete: only of a cluster that its RayJob left behind (`kubectl delete rayjob --cascade=orphan`).
  verbs: [get, list, watch, delete]
# Patch: the annotation trainsweep.io/control on head pods, by which the driver learns of stop and verdict.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, patch]
# List: why a pod does not start.
- apiGroups: [""]
  resources: [events]
  verbs: [list, create]
{{- if .Values.rbac.explain }}
# Why a sweep waits: ResourceQuotas, and Kueue's Workloads where they are served.
- apiGroups: [""]
  resources: [resourcequotas]
  verbs: [list]
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads]
  verbs: [list]
{{- end }}
{{- end }}
