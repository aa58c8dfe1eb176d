{{/*
Names do not follow the release's name: audit rules, docs and the programs themselves speak of the accounts, so they are
always vmpool-controller, vmpool-webhook and vmpool-apiserver. Templates for one of them take a dict of root (the top
context) and component.
*/}}
{{- define "vmpool.name" -}}
vmpool-{{ .component }}
{{- end }}

{{/* What selects the pods of one program; a Deployment's selector cannot change, so keep this small. */}}
{{- define "vmpool.selector" -}}
app.kubernetes.io/name: {{ include "vmpool.name" . }}
app.kubernetes.io/instance: {{ include "vmpool.instance" .root }}
{{- end }}

{{/* What selects the pods of all three. */}}
{{- define "vmpool.selector.all" -}}
app.kubernetes.io/instance: {{ include "vmpool.instance" . }}
app.kubernetes.io/part-of: vmpool
{{- end }}

{{- define "vmpool.instance" -}}
{{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* Labels of every object of one program. */}}
{{- define "vmpool.labels" -}}
{{ include "vmpool.selector" . }}
{{ include "vmpool.labels.common" .root }}
{{- end }}

{{/* Labels of what belongs to no single program. */}}
{{- define "vmpool.labels.shared" -}}
app.kubernetes.io/name: vmpool
app.kubernetes.io/instance: {{ include "vmpool.instance" . }}
{{ include "vmpool.labels.common" . }}
{{- end }}

{{- define "vmpool.labels.common" -}}
app.kubernetes.io/part-of: vmpool
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "vmpool.image" -}}
{{- $own := (get .root.Values .component).image -}}
{{- $repository := $own.repository | default (printf "%s/%s" (.root.Values.image.registry | trimSuffix "/") (include "vmpool.name" .)) -}}
{{- if $own.digest -}}
{{ $repository }}@{{ $own.digest }}
{{- else -}}
{{ $repository }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* The user that a program's ServiceAccount is to the API server. */}}
{{- define "vmpool.user" -}}
system:serviceaccount:{{ .root.Release.Namespace }}:{{ include "vmpool.name" . }}
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

{{/* The APIService of our own group, and that of the platform's. */}}
{{- define "vmpool.group.own" -}}
subresources.vmpool.dev
{{- end }}
{{- define "vmpool.group.platform" -}}
subresources.virtualization.deckhouse.io
{{- end }}
{{- define "vmpool.apiservice.own" -}}
v1alpha1.{{ include "vmpool.group.own" . }}
{{- end }}
{{- define "vmpool.apiservice.platform" -}}
v1alpha2.{{ include "vmpool.group.platform" . }}
{{- end }}

{{/*
Who holds the platform's group: "nobody", "ours", "foreign", "taken" (it was ours, and somebody put his own service into
it) or "unseen", when there is no cluster to look at, as in `helm template`.
*/}}
{{- define "vmpool.platformGroup.holder" -}}
{{- if not (lookup "v1" "Namespace" "" "kube-system") -}}
unseen
{{- else -}}
{{- $found := lookup "apiregistration.k8s.io/v1" "APIService" "" (include "vmpool.apiservice.platform" .) -}}
{{- if not $found -}}
nobody
{{- else -}}
{{- $annotations := $found.metadata.annotations | default dict -}}
{{- $released := and (eq (get $annotations "meta.helm.sh/release-name") .Release.Name) (eq (get $annotations "meta.helm.sh/release-namespace") .Release.Namespace) -}}
{{- $service := $found.spec.service | default dict -}}
{{- $points := and (eq (get $service "name" | default "") "vmpool-apiserver") (eq (get $service "namespace" | default "") .Release.Namespace) -}}
{{- if and $released $points -}}
ours
{{- else if $released -}}
taken
{{- else -}}
foreign
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* "true" where we serve the platform's group. Fails where that would overwrite or delete what is not ours. */}}
{{- define "vmpool.platformGroup" -}}
{{- $wanted := toString .Values.apiserver.platformGroup -}}
{{- $holder := include "vmpool.platformGroup.holder" . -}}
{{- $name := include "vmpool.apiservice.platform" . -}}
{{- if eq $holder "taken" -}}
{{- fail (printf "APIService %s was this release's, and leads to somebody else's service now. Helm would delete it. Give it up first: kubectl annotate apiservice %s helm.sh/resource-policy=keep meta.helm.sh/release-name- meta.helm.sh/release-namespace-" $name $name) -}}
{{- else if not .Values.featureGates.VirtualMachinePool -}}
{{- else if eq $wanted "false" -}}
{{- else if eq $holder "foreign" -}}
{{- if eq $wanted "true" -}}
{{- fail (printf "apiserver.platformGroup is true, but APIService %s belongs to somebody else. Set it to auto or false: scaledownwith is served in %s anyway" $name (include "vmpool.group.own" .)) -}}
{{- end -}}
{{- else if and (eq $holder "unseen") (eq $wanted "auto") -}}
{{- else -}}
true
{{- end -}}
{{- end }}

{{/* The Secret with the serving certificate of a program. */}}
{{- define "vmpool.tlsSecret" -}}
{{ include "vmpool.name" . }}-tls
{{- end }}

{{/* The name under which the API server reaches a program's Service. */}}
{{- define "vmpool.dnsName" -}}
{{ include "vmpool.name" . }}.{{ .root.Release.Namespace }}.svc
{{- end }}

{{/* What has cert-manager put its CA into a webhook configuration or an APIService; a dict of root and component. */}}
{{- define "vmpool.caInjection" -}}
{{- if eq .root.Values.certificates.mode "CertManager" }}
cert-manager.io/inject-ca-from: {{ .root.Release.Namespace }}/{{ include "vmpool.name" . }}
{{- end }}
{{- end }}
