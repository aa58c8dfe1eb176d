{{/*
A role for one program, and its binding to the program's account. Takes a dict of root, component, name, rules (text), and
namespace for a Role or nothing for a ClusterRole. Renders nothing without rules.
*/}}
{{- define "vmpool.grant" -}}
{{- $rules := .rules | trim }}
{{- $kind := empty .namespace | ternary "ClusterRole" "Role" }}
{{- if $rules }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "vmpool.labels" . | nindent 4 }}
rules:
  {{- $rules | nindent 2 }}
---
{{ include "vmpool.bind" (merge (dict "kind" $kind) .) }}
{{- end }}
{{- end }}

{{/* Binds the role of that kind and name, or of the name in role, to the program's account. */}}
{{- define "vmpool.bind" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Binding
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "vmpool.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .role | default .name }}
subjects:
  - kind: ServiceAccount
    name: {{ include "vmpool.name" . }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}

{{/*
The Secret of a program's own certificate, and no other. A name cannot be asked for on create: the server decides before it
knows one. With cert-manager the kubelet mounts the Secret, and the program may read none.
*/}}
{{- define "vmpool.rules.tlsSecret" -}}
{{- if eq .root.Values.certificates.mode "SelfSigned" }}
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [{{ include "vmpool.tlsSecret" . }}]
  verbs: [get, update]
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]
{{- end }}
{{- end }}
