{{/*
A role for one program, and its binding to the program's account. Takes a dict of root, component, name, rules (text), and
namespace. With a namespace, it renders a Role, and otherwise a ClusterRole. Without rules, it renders nothing.
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
  {{- with include "vmpool.annotations" (dict "root" .root) }}{{ . | nindent 2 }}{{ end }}
  labels:
    {{- include "vmpool.labels" . | nindent 4 }}
rules:
  {{- $rules | nindent 2 }}
---
{{ include "vmpool.bind" (merge (dict "kind" $kind) .) }}
{{- end }}
{{- end }}

{{/* A binding of a role to the program's account. The role has the given kind, and the name in role, or else the given name. */}}
{{- define "vmpool.bind" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Binding
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  {{- with include "vmpool.annotations" (dict "root" .root) }}{{ . | nindent 2 }}{{ end }}
  labels:
    {{- include "vmpool.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .role | default .name }}
subjects:
  - kind: ServiceAccount
    name: {{ include "vmpool.account" . }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}

{{/*
The right to the Secret with the program's own certificate. A create request cannot be limited to a name: the API server
authorizes it before it knows the name. With cert-manager, the kubelet mounts the Secret, and the program may read no Secrets.
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
