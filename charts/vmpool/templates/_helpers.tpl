{{/* The name of everything that belongs to the controller. Its ServiceAccount is named in docs and audit rules, so it does not follow the release's name. */}}
{{- define "vmpool.controller" -}}
vmpool-controller
{{- end }}

{{/* What selects the controller's pods; a Deployment's selector cannot change, so keep this small. */}}
{{- define "vmpool.selector" -}}
app.kubernetes.io/name: vmpool-controller
app.kubernetes.io/instance: {{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* Labels of every object. */}}
{{- define "vmpool.labels" -}}
{{ include "vmpool.selector" . }}
app.kubernetes.io/part-of: vmpool
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "vmpool.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* A=true,B=false in a stable order: range over a map goes by key. */}}
{{- define "vmpool.featureGates" -}}
{{- $gates := list -}}
{{- range $name, $on := .Values.featureGates -}}
{{- $gates = append $gates (printf "%s=%t" $name $on) -}}
{{- end -}}
{{- join "," $gates -}}
{{- end }}

{{/* The name of the pool's definition, and of the file that holds it. */}}
{{- define "vmpool.crd" -}}
virtualmachinepools.virtualization.deckhouse.io
{{- end }}

{{/*
What the controller may do, as rules of a Role or a ClusterRole. Nothing here when the gate is off.
It never creates, updates or deletes pools, and reads no secrets.
*/}}
{{- define "vmpool.rules" -}}
{{- if .Values.featureGates.VirtualMachinePool }}
- apiGroups: [virtualization.deckhouse.io]
  resources: [virtualmachinepools]
  # patch: the block of names that is in use, as an annotation
  verbs: [get, list, watch, patch]
- apiGroups: [virtualization.deckhouse.io]
  resources: [virtualmachinepools/status]
  verbs: [update, patch]
- apiGroups: [virtualization.deckhouse.io]
  resources: [virtualmachines, virtualdisks]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [virtualization.deckhouse.io]
  # for owner references with blockOwnerDeletion, where the admission plugin that guards them is on
  resources: [virtualmachinepools/finalizers, virtualmachines/finalizers]
  verbs: [update]
- apiGroups: ["", events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}
{{- end }}
